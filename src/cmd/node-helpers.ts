import { z } from 'zod'
import type { HelperResult } from '../boxes/node/credential-choice.ts'
import { createBoxMaps } from '../boxes/node/credential-maps.ts'
import { answerDocker, dockerFailure } from '../boxes/node/docker-helper.ts'
import { answerKubelet, providerFailure } from '../boxes/node/kubelet-provider.ts'
import type { BoxLogins } from '../credentials/cloud.ts'
import { createClock } from '../lib/clock.ts'
import { integer, matching, parameterPrefix } from './config-values.ts'

/** More than a program is willing to read. */
export class InputTooLongError extends Error {
  override readonly name = 'InputTooLongError'
}

/** All of a stream as text in UTF-8. Throws InputTooLongError beyond `maxBytes`. */
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

/**
 * Settings of the two programs that pull on a box: from the environment, in a file of their own, since they start with every
 * pull and must not wait for what a server is configured with.
 */

export type BoxConfig = {
  credentialsPath: string
  keepSeconds: number
  /** That of the operator. */
  parameterPrefix: string
}

/** `words` name every mistake. */
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

/** Logins of a box, from AWS. Nothing of that is loaded before one is asked for: most pulls need none of it. */
export function lazyBoxLogins(): BoxLogins {
  return {
    async login(credential, pod) {
      const { boxLogins } = await import('./node-logins.ts')
      return await boxLogins().login(credential, pod)
    },
  }
}

/** Until there is an answer nothing else may keep the process alive: timers of waits do not. */
const STAY_MS = 60_000

/** Prints what `run` answers, and lets the process end with it; `failed` is the answer for what went wrong before. */
export async function respondAndExit(
  run: () => Promise<HelperResult>,
  failed: (words: string) => HelperResult,
): Promise<void> {
  const stay = setInterval(() => {}, STAY_MS)
  const { exitCode, stdout, stderr } = await run().catch((error) => failed(wordsOf(error)))
  clearInterval(stay)
  process.stderr.write(stderr)
  process.stdout.write(stdout)
  process.exitCode = exitCode
}

/** An error that nobody has foreseen is named and not quoted: it could repeat what must not be shown. */
function wordsOf(error: unknown): string {
  if (error instanceof BoxConfigError) return `the environment has a mistake: ${error.message}`
  if (error instanceof InputTooLongError) return `what came on stdin ${error.message}`
  const { name = 'Error', stack = '' } = error instanceof Error ? error : {}
  const [, place = ''] = /\/([^/\s]+\.ts:\d+)/.exec(stack) ?? []
  return `an error that is Davit's own: ${name} ${place}`.trimEnd()
}

/** A token, and the annotations of a service account, which may have 256 KiB. */
const MAX_INPUT_BYTES = 1024 * 1024

/** One request of kubelet, with this process's stdin, stdout and environment. */
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

/** A host, or what a login would store. */
const MAX_DOCKER_INPUT_BYTES = 64 * 1024

/** One action of the credential helper, with this process's stdin, stdout and environment. */
export async function runDockerHelper(action: string): Promise<void> {
  await respondAndExit(async () => {
    const { credentialsPath, parameterPrefix } = readBoxConfig()
    return await answerDocker(action, {
      maps: createBoxMaps(credentialsPath),
      logins: lazyBoxLogins(),
      input: () => readInput(process.stdin, MAX_DOCKER_INPUT_BYTES),
      parameterPrefix,
    })
  }, dockerFailure)
}
