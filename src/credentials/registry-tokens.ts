import type { SecretText } from '../lib/secret-text.ts'
import type { CallLimits } from './cloud.ts'

/** A registry of the provider, as its host names it. */
export type CloudRegistry = { account: string; region: string }

export type RegistryLogin = {
  username: string
  password: SecretText
  /** Milliseconds since 1970. */
  expiresAt: number
}

export interface RegistryTokens {
  /**
   * A login made now, with the identity of this process, in the region of the registry: it is of no use in another one. It
   * opens every registry that the identity may use, not that of `account` alone. Throws CloudError.
   */
  token(registry: CloudRegistry, limits?: CallLimits): Promise<RegistryLogin>
}
