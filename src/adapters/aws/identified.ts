import { CloudError } from '../../ports/cloud-error.ts'
import { fitToShow } from './error-words.ts'
import { verdictOf } from './verdict.ts'

/** What the SDK asks to become somebody with a token that it was given. */
const OPERATION = 'sts:AssumeRoleWithWebIdentity'

/**
 * The client, once this process is somebody by it: a failure of that must not look like a refusal of what is asked afterwards.
 * Throws CloudError.
 */
export async function identified<S extends { client: { config: { credentials(): Promise<unknown> } } }>(
  sdk: S,
): Promise<S> {
  try {
    await sdk.client.config.credentials()
    return sdk
  } catch (error) {
    const { remedy, code, words } = verdictOf(error)
    const message =
      code === 'NoIdentity'
        ? `There is no identity to ask AWS with: ${fitToShow(words, [])}`
        : fitToShow(words, [])
    throw new CloudError(remedy, code, message, { operation: OPERATION })
  }
}
