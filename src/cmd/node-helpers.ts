/**
 * The two programs that pull images on a box: the credential provider of kubelet and the credential helper of docker. They start with every
 * pull, so they have their own settings and load the AWS SDK only for a login.
 */
import { z } from 'zod'
import type { HelperResult } from '../boxes/node/credential-choice.ts'
import { createBoxMaps } from '../boxes/node/credential-maps.ts'
import { answerDocker, dockerFailure, ERASE } from '../boxes/node/docker-helper.ts'
import { answerKubelet, providerFailure } from '../boxes/node/kubelet-provider.ts'
import type { BoxLogins } from '../credentials/cloud.ts'
import { createClock } from '../lib/time.ts'
import { integer, matching, parameterPrefix } from './setting-parsers.ts'

export class InputTooLongError extends Error {
  override readonly name = 'InputTooLongError'
}

/** @returns the whole stream as UTF-8 @throws InputTooLongError beyond `maxBytes` */
export async function readInput(stream: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stream) {
    size += chunk.byteLength
    if (size > maxBytes) throw new InputTooLongError(`has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

export type BoxConfig = {
  credentialsPath: string
  keepSeconds: number
  parameterPrefix: string
}

export class BoxConfigError extends Error {
  override readonly name = 'BoxConfigError'
}

const DAY_SECONDS = 24 * 3600

export const nodeHelperVariables = z.object({
  DAVIT_CREDENTIALS: matching(/^\/[^\0]{0,4095}$/, 'must be an absolute path').default('/etc/davit'),
  DAVIT_KEEP_SECONDS: integer(0, DAY_SECONDS, 300),
  DAVIT_PARAMETER_PREFIX: parameterPrefix.default('/davit'),
})

/** @throws BoxConfigError */
export function readBoxConfig(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): BoxConfig {
  const given = Object.entries(environment).filter(
    ([name, value]) => name.startsWith('DAVIT_') && value !== '',
  )
  const parsed = nodeHelperVariables.safeParse(Object.fromEntries(given))
  if (!parsed.success) {
    throw new BoxConfigError(
      parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; '),
    )
  }
  const { data } = parsed
  return {
    credentialsPath: data.DAVIT_CREDENTIALS,
    keepSeconds: data.DAVIT_KEEP_SECONDS,
    parameterPrefix: data.DAVIT_PARAMETER_PREFIX,
  }
}

/** Loads the AWS SDK for the first login only: most pulls need none. */
export function lazyBoxLogins(): BoxLogins {
  return {
    async login(credential, pod) {
      const { boxLogins } = await import('./node-logins.ts')
      return await boxLogins().login(credential, pod)
    },
  }
}

/** Prints the result and sets the exit code. @param failed makes the result of an error */
export async function respondAndExit(
  run: () => Promise<HelperResult>,
  failed: (words: string) => HelperResult,
): Promise<void> {
  // Timers of waits do not keep the process alive.
  const stay = setInterval(() => {}, 60_000)
  const { exitCode, stdout, stderr } = await run().catch((error) => failed(describe(error)))
  clearInterval(stay)
  process.stderr.write(stderr)
  process.stdout.write(stdout)
  process.exitCode = exitCode
}

/** An unexpected error is named but not quoted: its message could contain a secret. */
function describe(error: unknown): string {
  if (error instanceof BoxConfigError) return `invalid environment: ${error.message}`
  if (error instanceof InputTooLongError) return `stdin ${error.message}`
  const { name = 'Error', stack = '' } = error instanceof Error ? error : {}
  const [, line = ''] = /\/([^/\s]+\.ts:\d+)/.exec(stack) ?? []
  return `internal error in Davit: ${name} ${line}`.trimEnd()
}

/** A token and the annotations of a ServiceAccount, at most 256 KiB. */
const MAX_INPUT_BYTES = 1024 * 1024

/** Handles one request of kubelet. */
export async function runCredentialProvider(): Promise<void> {
  await respondAndExit(async () => {
    const { credentialsPath, keepSeconds, parameterPrefix } = readBoxConfig()
    return await answerKubelet({
      maps: createBoxMaps(credentialsPath),
      logins: lazyBoxLogins(),
      clock: createClock(),
      input: () => readInput(process.stdin, MAX_INPUT_BYTES),
      keepSeconds,
      parameterPrefix,
    })
  }, providerFailure)
}

/** A host, or a login to store. */
const MAX_DOCKER_INPUT_BYTES = 64 * 1024

/** Handles one action of the credential helper. */
export async function runDockerHelper(action: string): Promise<void> {
  await respondAndExit(async () => {
    // A logout succeeds whatever the settings are.
    const { credentialsPath, parameterPrefix } = readBoxConfig(action === ERASE ? {} : process.env)
    return await answerDocker(action, {
      maps: createBoxMaps(credentialsPath),
      logins: lazyBoxLogins(),
      input: () => readInput(process.stdin, MAX_DOCKER_INPUT_BYTES),
      parameterPrefix,
    })
  }, dockerFailure)
}
