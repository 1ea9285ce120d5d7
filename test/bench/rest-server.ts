/** The measured REST server, with the rights of an installation, and API tokens of organizations. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeOwner, OWNER, writeKeyFile, writeKubeconfig } from '../../playground/api-keys.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation } from '../../playground/installation.ts'
import { createTestAuthority } from '../support/tls.ts'
import { type Bed, SYSTEM } from './bed.ts'
import { type DavitRole, startRole } from './davit-role.ts'
import type { PublishTarget } from './loads/rest-publisher.ts'

export type MeasuredServer = DavitRole & PublishTarget

/** Files in PEM form, and the authority that issued the certificate. */
export type ServerCertificate = { certFile: string; keyFile: string; ca: string }

export type ServerOptions = {
  /** As an installation with default values has it; absent: limits on requests and on written bytes are raised. */
  settings?: 'default'
  /** Absent: no TLS. */
  certificate?: ServerCertificate | undefined
  /** Its number among the REST servers of a bed, from 0. */
  replica?: number
}

/** Files with an owner's key, by organization. */
export type KeyFiles = Record<string, string>

const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))
const ACCOUNT = 'davit-api'
const HOST = '127.0.0.1'
const REPLICA = 'bench-api'

/** What stops abuse must not be what is measured. */
const RAISED = {
  DAVIT_MAX_REQUESTS_PER_KEY: '1000000',
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '1000000',
  DAVIT_MAX_WRITTEN_BYTES: String(2 ** 36),
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: String(2 ** 36),
}

/** Those that the chart gives Node for the default memory limit, 1 GiB. */
const CHART_FLAGS = ['--max-semi-space-size=32']

/** Roles, the REST server's account, and the rule that keeps the log append-only: once for a bed. */
export async function installServer(bed: Bed): Promise<void> {
  await applyInstallation(bed.api, CONFIG)
  await writeKubeconfig(kubeconfigOf(bed), bed.controlPlane.access, { namespace: SYSTEM, name: ACCOUNT })
}

/** Makes an owner in each. */
export async function makeKeys(bed: Bed, organizations: readonly string[]): Promise<KeyFiles> {
  const files: KeyFiles = {}
  for (const namespace of organizations) {
    const file = join(bed.folder, `${namespace}.key`)
    await makeOwner(bed.api, namespace)
    await writeKeyFile(file, bed.controlPlane.access, { namespace, name: OWNER })
    files[namespace] = file
  }
  return files
}

/** A certificate for the address of the bed's REST servers, in the bed's folder. Needs the `openssl` command. */
export async function makeCertificate(bed: Bed): Promise<ServerCertificate> {
  const authority = createTestAuthority()
  const { cert, key } = authority.issue([HOST])
  const [certFile, keyFile] = [join(bed.folder, 'api.crt'), join(bed.folder, 'api.key')]
  await writeFile(certFile, cert)
  await writeFile(keyFile, key, { mode: 0o600 })
  return { certFile, keyFile, ca: authority.ca }
}

/** Resolves when it is ready, the log read. */
export async function startServerBed(bed: Bed, options: ServerOptions = {}): Promise<MeasuredServer> {
  const { settings, certificate, replica = 0 } = options
  const address = `${HOST}:${await freePort()}`
  const role = await startRole('api', {
    kubeconfigPath: kubeconfigOf(bed),
    namespace: SYSTEM,
    env: {
      DAVIT_API_ADDRESS: address,
      // No load balancer has to notice that it stops.
      DAVIT_SHUTDOWN_DELAY: '0s',
      DAVIT_REPLICA: replica === 0 ? REPLICA : `${REPLICA}-${replica}`,
      ...(settings === 'default' ? {} : RAISED),
      ...(certificate ? tlsOf(certificate) : {}),
    },
    execArgv: settings === 'default' ? CHART_FLAGS : [],
  })
  if (!certificate) return { ...role, baseUrl: `http://${address}` }
  return { ...role, baseUrl: `https://${address}`, ca: certificate.ca }
}

function tlsOf({ certFile, keyFile }: ServerCertificate): Record<string, string> {
  return { DAVIT_API_CERTIFICATE_FILE: certFile, DAVIT_API_KEY_FILE: keyFile }
}

function kubeconfigOf(bed: Bed): string {
  return join(bed.folder, 'api.kubeconfig')
}
