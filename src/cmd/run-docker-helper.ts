import { createBoxMaps } from '../boxes/node/credential-maps.ts'
import { answerDocker, dockerFailure } from '../boxes/node/docker-helper.ts'
import { readInput } from './bounded-input.ts'
import { respondAndExit } from './end-with-answer.ts'
import { lazyBoxLogins } from './lazy-box-logins.ts'
import { readBoxConfig } from './node-helpers.ts'

/** A host, or what a login would store. */
const MAX_INPUT_BYTES = 64 * 1024

/** One action of the credential helper, with this process's stdin, stdout and environment. */
export async function runDockerHelper(action: string): Promise<void> {
  await respondAndExit(async () => {
    const { credentialsPath, parameterPrefix } = readBoxConfig()
    return await answerDocker(action, {
      maps: createBoxMaps(credentialsPath),
      logins: lazyBoxLogins(),
      input: () => readInput(process.stdin, MAX_INPUT_BYTES),
      parameterPrefix,
    })
  }, dockerFailure)
}
