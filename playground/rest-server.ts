/** The REST server of the playground: `davit api` with its own ServiceAccount, and API tokens for two organizations. */

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { OWNER, writeKeyFile, writeKubeconfig } from './api-keys.ts'
import type { ControlPlane } from './control-plane/control-plane.ts'
import { type DavitProcess, startDavitProcess } from './davit-process.ts'
import { freePort } from './free-port.ts'
import { OPERATOR_NAMESPACE, ORGANIZATION, OTHER_ORGANIZATION } from './organization.ts'

export type PlaygroundRestServer = {
  process: DavitProcess
  log: string
  /** As in `playground.json`. */
  facts: {
    baseUrl: string
    organization: string
    keyFile: string
    otherOrganization: string
    otherKeyFile: string
  }
}

/**
 * Starts the REST server without waiting until it is ready. Tokens and process end with `stack`. @param state folder for its
 * files @param environment of its cloud
 */
export async function startRestServer(
  { state, environment }: { state: string; environment: Readonly<Record<string, string>> },
  { access }: ControlPlane,
  stack: AsyncDisposableStack,
): Promise<PlaygroundRestServer> {
  const kubeconfig = join(state, 'api.kubeconfig')
  const keyFile = join(state, `${ORGANIZATION}.key`)
  const otherKeyFile = join(state, `${OTHER_ORGANIZATION}.key`)
  stack.defer(async () => {
    for (const file of [kubeconfig, keyFile, otherKeyFile]) await rm(file, { force: true })
  })
  await writeKubeconfig(kubeconfig, access, { namespace: OPERATOR_NAMESPACE, name: 'davit-api' })
  await writeKeyFile(keyFile, access, { namespace: ORGANIZATION, name: OWNER })
  await writeKeyFile(otherKeyFile, access, { namespace: OTHER_ORGANIZATION, name: OWNER })
  const port = await freePort()
  const log = join(state, 'api.log')
  const process = startDavitProcess({
    role: 'api',
    kubeconfig,
    namespace: OPERATOR_NAMESPACE,
    opsPort: await freePort(),
    settings: { DAVIT_API_ADDRESS: `127.0.0.1:${port}`, ...environment },
    logPath: log,
  })
  stack.defer(() => process.stop())
  const baseUrl = `http://127.0.0.1:${port}`
  const organizations = { organization: ORGANIZATION, otherOrganization: OTHER_ORGANIZATION }
  return { process, log, facts: { baseUrl, ...organizations, keyFile, otherKeyFile } }
}
