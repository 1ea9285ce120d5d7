/** What is read of both roles when Prometheus scrapes. */
import { X509Certificate } from 'node:crypto'
import type { GaugeRegistry } from '../lib/metrics.ts'
import type { CertificateSource } from '../server/http/ports-certificate.ts'

/** Registered at once, since a process that waits for the API server is not ready. @param problems as `/readyz` has them */
export function registerReadiness(registry: GaugeRegistry, problems: () => readonly string[]): void {
  registry.gauge('davit_ready', 'Whether the process is ready, as /readyz says: 0 or 1.', () =>
    Number(problems().length === 0),
  )
}

export function registerLease(
  registry: GaugeRegistry,
  lease: { isHeld: () => boolean; ageMs: () => number },
): void {
  registry.gauge('davit_lease_held', 'Whether the own Lease is renewed in time: 0 or 1.', () =>
    Number(lease.isHeld()),
  )
  registry.gauge(
    'davit_lease_age_seconds',
    'Time since the own Lease was renewed.',
    () => lease.ageMs() / 1000,
  )
}

/** @param limits by the name of the metric that is limited, without `davit_` */
export function registerLimits(registry: GaugeRegistry, limits: Readonly<Record<string, number>>): void {
  registry.gauge(
    'davit_limit',
    'What a metric of this name is limited to by the settings.',
    () => limits,
    'of',
  )
}

/** Without a certificate it is 0. */
export function registerCertificate(
  registry: GaugeRegistry,
  certificate: CertificateSource | undefined,
): void {
  registry.gaugeRows(
    'davit_certificate_expiry_timestamp_seconds',
    'When the certificate of the REST API ends, in seconds since 1970.',
    [],
    () => (certificate ? [{ labels: [], value: expiryOf(certificate.current().cert) }] : []),
  )
}

function expiryOf(pem: string): number {
  return new X509Certificate(pem).validToDate.getTime() / 1000
}
