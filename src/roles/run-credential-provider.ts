import { readInput } from '../adapters/system/bounded-input.ts'
import { createBoxMaps } from '../adapters/system/box-maps.ts'
import { createClock } from '../adapters/system/clock.ts'
import { readBoxConfig } from '../config-box.ts'
import { answerKubelet, providerFailure } from '../controllers/box/credential-provider.ts'
import { respondAndExit } from './end-with-answer.ts'
import { lazyBoxLogins } from './lazy-box-logins.ts'

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
