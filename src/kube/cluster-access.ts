/** How to reach one API server: its address, whom to trust, and who we are. */

/** PEM, as Node's TLS takes it. */
export type TlsMaterial = {
  ca?: string | Buffer
  cert?: string | Buffer
  key?: string | Buffer
  /** The name that the certificate is checked against, where it is not the server's host. */
  servername?: string
  /** Only ever false, where a kubeconfig says `insecure-skip-tls-verify`. */
  rejectUnauthorized?: boolean
}

export type Credentials = {
  /** Request headers as name, value, name, value: `authorization` and whatever impersonates. */
  headers: readonly string[]
  tls: TlsMaterial
}

/** Credentials that change while the process runs. */
export interface CredentialSource {
  /**
   * What to use now; a promise only while new ones are fetched because the old ones were refused. As long as the
   * TLS material is the same, `tls` is the same object: connections belong to it.
   */
  current(): Credentials | Promise<Credentials>
  /** The server answered 401 to `used`: `current` fetches anew. */
  refused(used: Credentials): void
}

export type ClusterAccess = {
  /** `https://host:port`, without a path. */
  origin: string
  /** What comes before `/api`: empty, or the path of a proxy such as Rancher's, without a slash at its end. */
  basePath: string
  credentials: CredentialSource
}

/** @throws Error when `server` is no http(s) URL */
export function splitServer(server: string): { origin: string; basePath: string } {
  const url = new URL(server)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new Error(`the API server's address must start with https:// or http://, not ${url.protocol}//`)
  }
  return { origin: url.origin, basePath: url.pathname.replace(/\/+$/, '') }
}

export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return (
    a.headers.length === b.headers.length &&
    a.headers.every((part, index) => part === b.headers[index]) &&
    sameTls(a.tls, b.tls)
  )
}

export function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  return (
    samePem(a.ca, b.ca) &&
    samePem(a.cert, b.cert) &&
    samePem(a.key, b.key) &&
    a.servername === b.servername &&
    a.rejectUnauthorized === b.rejectUnauthorized
  )
}

function samePem(a: string | Buffer | undefined, b: string | Buffer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return a === b || Buffer.from(a).equals(Buffer.from(b))
}
