/** What a registry says to somebody who wants to pull, before an image is pulled. */
import type { SecretText } from '../../lib/secret-text.ts'

/** One image, by the parts of its reference. */
export type ImageRequest = {
  /** Canonical host, as `docker.io` or `registry.example.com:5000`. */
  registry: string
  /** As `acme/api` or `library/postgres`. */
  repository: string
  /** A tag or a digest. */
  reference: string
}

export type RegistryLogin = { username: string; password: SecretText }

export type ProbeLimits = { signal?: AbortSignal }

/** At which request it ended: the first one to the registry, the one for a token, or the one for the manifest. */
export type ProbeStep = 'ping' | 'token' | 'manifest'

export type ConnectFailure =
  | 'dns'
  | 'refused'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'forbidden-address'

/** Where a manifest was found. */
export type FoundManifest = {
  kind: 'found'
  /** Of the very bytes that were answered: what a tag stood for. */
  digest: string
  mediaType: string
  bytes: Uint8Array
  /** Whether the login was asked for, and so proved. */
  loggedIn: boolean
}

/** The registry, or its service for tokens, said no. */
export type RegistryRefusal = {
  kind: 'refused'
  step: ProbeStep
  status: number
  /** Of the OCI distribution specification, as `MANIFEST_UNKNOWN`; in the order in which they were said. */
  codes: readonly string[]
  /** The server's own words, bounded. They may hold anything that the server makes up. */
  words: string
  /** Whether the request carried the login, or a token that was got with it. */
  loggedIn: boolean
  /** How the request that was refused was authorized. */
  scheme: 'none' | 'basic' | 'bearer'
  /** The challenge says that the login is known and has not the right. */
  insufficientScope: boolean
  /** Seconds, where it said when to come again. */
  retryAfter?: number
}

export type ProbeResult =
  | FoundManifest
  | RegistryRefusal
  /** The registry sends people somewhere else with their password, where it does not go. */
  | { kind: 'realm-refused'; realm: string; reason: string }
  /** `code` is as of Node, such as `ENOTFOUND` or `CERT_HAS_EXPIRED`. */
  | {
      kind: 'unreachable'
      step: ProbeStep
      host: string
      failure: ConnectFailure
      code: string
      words: string
    }

export interface RegistryProbe {
  /**
   * Asks for the manifest as a pull would, at most once with the login per way of logging in, so that nobody is locked out.
   * Never throws but when its signal aborts.
   */
  manifest(image: ImageRequest, login: RegistryLogin | undefined, limits?: ProbeLimits): Promise<ProbeResult>
}
