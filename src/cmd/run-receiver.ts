import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startReceiver } from '../receiver/receiver.ts'
import { type Environment, parseReceiverConfig } from './config.ts'

/** The command `davit receiver`: verifies deliveries with a mounted signing secret, and prints a line about each. */

/** In the Secret of an endpoint: the active signing secrets, one per line (`src/webhooks/endpoints/signing-keys.ts`). */
const SECRETS_FILE = 'signingSecrets'

/** @returns the exit code @throws ConfigError */
export async function runReceiver(environment: Environment): Promise<number> {
  const { address, secretsFolder } = parseReceiverConfig(environment)
  const print = (line: string) => process.stdout.write(`${line}\n`)
  const secrets = async () => {
    const text = await readFile(join(secretsFolder, SECRETS_FILE), 'utf8')
    return text.split('\n').filter((line) => line !== '')
  }
  const receiver = await startReceiver({ ...address, secrets, print })
  print(`listening on port ${receiver.port}`)
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  await receiver.close()
  return 0
}
