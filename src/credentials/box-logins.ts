import type { BoxCredential } from '../apis/box-credentials.ts'
import type { SecretText } from '../lib/secret-text.ts'

export type BoxLogin = {
  username: string
  password: SecretText
  /** Milliseconds since 1970; absent where nothing ends it. */
  expiresAt?: number
}

/** A pod that shows who it is, instead of the machine that it runs on. */
export type PodRole = { roleArn: string; token: SecretText; namespace: string }

export interface BoxLogins {
  /**
   * Fetched now, and kept nowhere, with the role of this machine or that of a pod. Throws CloudError.
   */
  login(credential: BoxCredential, pod?: PodRole): Promise<BoxLogin>
}
