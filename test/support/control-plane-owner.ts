// A process that owns a control plane, for tests of unusual ends of the owner. Prints `{"pids":...,"workDir":...}`; on SIGINT it
// sends a request to the API server, prints `{"answered":<status>}` and stops.

import { dirname } from 'node:path'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { startControlPlane } from '../../playground/control-plane/control-plane.ts'

const controlPlane = await startControlPlane()

process.on('SIGINT', async () => {
  const { status } = await requestApi(controlPlane.access, { method: 'GET', path: '/api/v1/namespaces' })
  console.log(JSON.stringify({ answered: status }))
  await controlPlane.stop()
  process.exit()
})
// The pipe to the helper keeps it alive.
console.log(JSON.stringify({ pids: controlPlane.pids, workDir: dirname(controlPlane.kubeconfigPath) }))
