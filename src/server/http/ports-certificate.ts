/** The certificate of a server, which may be renewed while it runs. */

/** In PEM form: the chain, and its key. */
export type Certificate = { cert: string; key: string }

export type CertificateSource = {
  current(): Certificate
  /** Told of each renewal. A listener that throws refuses it: the one before stays, and the next is tried. */
  listen(listener: (certificate: Certificate) => void): void
  close(): void
}
