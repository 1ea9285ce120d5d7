import { createBoxMaps } from '../boxes/node/credential-maps.ts'
import { answerKubelet, providerFailure } from '../boxes/node/kubelet-provider.ts'
import { createClock } from '../lib/system-clock.ts'
import { readInput } from './bounded-input.ts'
import { respondAndExit } from './end-with-answer.ts'
import { lazyBoxLogins } from './lazy-box-logins.ts'
import { readBoxConfig } from './node-helpers.ts'

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
