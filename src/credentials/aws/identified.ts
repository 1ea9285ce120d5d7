import { CloudError } from '../cloud-error.ts'
import { sanitizeMessage } from './error-words.ts'
import { classifyError } from './verdict.ts'

/** What the SDK asks to become somebody with a token that it was given. */
const OPERATION = 'sts:AssumeRoleWithWebIdentity'

/**
 * The client, once this process is somebody by it: a failure of that must not look like a refusal of what is asked afterwards.
 * Throws CloudError.
 */
export async function withIdentity<S extends { client: { config: { credentials(): Promise<unknown> } } }>(
  sdk: S,
): Promise<S> {
  try {
    await sdk.client.config.credentials()
    return sdk
  } catch (error) {
    const { remedy, code, words } = classifyError(error)
    const message =
      code === 'NoIdentity'
        ? `There is no identity to ask AWS with: ${sanitizeMessage(words, [])}`
        : sanitizeMessage(words, [])
    throw new CloudError(remedy, code, message, { operation: OPERATION })
  }
}
