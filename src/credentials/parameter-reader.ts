import type { SecretText } from '../lib/secret-text.ts'
import type { CallLimits } from './cloud.ts'

/** Which secret: one version of one parameter. */
export type PinnedParameter = { name: string; version: number; region: string }

export interface ParameterReader {
  /**
   * Reads it with the identity of this process. What is not there yet is asked for again for 10 s, since reads may lag behind.
   * Throws CloudError, also `ParameterVersionNotFound` of the remedy `gone`.
   */
  read(parameter: PinnedParameter, limits?: CallLimits): Promise<SecretText>
}
