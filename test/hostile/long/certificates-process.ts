/** Receivers with invalid certificates, as a separate process. */
import { serveCalls } from '../../bench/processes/remote-calls.ts'
import { startRawReceiver } from '../../support/receiver-raw.ts'
import { createTestAuthority, selfSignedCertificate } from '../../support/tls.ts'

export type CertificateCalls = {
  /** @returns their URLs by fault, and the trusted authority */
  listen: (argument: null) => Promise<{ urls: Record<string, string>; ca: string }>
}

const NAMES = ['localhost']

serveCalls({
  listen: async () => {
    const trusted = createTestAuthority()
    const certificates = {
      expired: trusted.issue(NAMES, -1),
      'of another host': trusted.issue(['elsewhere.example']),
      'self-signed': selfSignedCertificate(NAMES),
      'of an unknown authority': createTestAuthority().issue(NAMES),
    }
    const urls: Record<string, string> = {}
    for (const [what, tls] of Object.entries(certificates))
      urls[what] = (await startRawReceiver(() => undefined, { tls })).url
    return { urls, ca: trusted.ca }
  },
} satisfies CertificateCalls)
