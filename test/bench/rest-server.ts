/** The measured REST server, with the rights of an installation, and API tokens of organizations. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeOwner, OWNER, writeKeyFile, writeKubeconfig } from '../../playground/api-keys.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation } from '../../playground/installation.ts'
import { type Bed, SYSTEM } from './bed.ts'
import { type DavitRole, startRole } from './davit-role.ts'

export type MeasuredServer = DavitRole & { baseUrl: string }

/** Files with an owner's key, by organization. */
export type KeyFiles = Record<string, string>

const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))
const ACCOUNT = 'davit-api'

/** What stops abuse must not be what is measured. */
const RAISED = {
  DAVIT_MAX_REQUESTS_PER_KEY: '1000000',
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '1000000',
  DAVIT_MAX_WRITTEN_BYTES: String(2 ** 36),
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: String(2 ** 36),
}

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

/** Resolves when it is ready, the log read. */
export async function startServerBed(bed: Bed, execArgv: readonly string[] = []): Promise<MeasuredServer> {
  const address = `127.0.0.1:${await freePort()}`
  const role = await startRole('api', {
    kubeconfigPath: kubeconfigOf(bed),
    namespace: SYSTEM,
    env: { DAVIT_API_ADDRESS: address, DAVIT_REPLICA: 'bench-api', ...RAISED },
    execArgv,
  })
  return { ...role, baseUrl: `http://${address}` }
}

function kubeconfigOf(bed: Bed): string {
  return join(bed.folder, 'api.kubeconfig')
}
