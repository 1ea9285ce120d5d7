/**
 * The REST server over HTTP as in a cluster, with a controller of test/support/davit.ts: real services, tokens that the API
 * server reviews, and the rights of its own ServiceAccount. `stop` it before `davit.stop()`.
 */

import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectKubernetes } from '../../src/kube/resources.ts'
import { connectReviews } from '../../src/kube/reviews.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createRandom } from '../../src/lib/time.ts'
import { createApp } from '../../src/server/http/app.ts'
import { createHttpServer } from '../../src/server/http/server.ts'
import { Cursors } from '../../src/server/lists.ts'
import { allRoutes } from '../../src/server/routes.ts'
import { applyServerRole, makeToken, writeKubeconfig } from './api-keys.ts'
import type { TestDavit } from './davit.ts'
import { startLiveServer } from './live-server.ts'

const KEY = Buffer.from('a key of the installation')

export type HttpServer = Awaited<ReturnType<typeof startHttpServer>>

export async function startHttpServer(davit: TestDavit) {
  const account = await applyServerRole(davit.namespace)
  const folder = await mkdtemp(join(tmpdir(), 'davit-rest-server-'))
  const kubeconfigPath = join(folder, 'kubeconfig')
  await writeKubeconfig(kubeconfigPath, await makeToken(davit.namespace, account, { audiences: [] }))
  const { clock } = davit
  const random = createRandom()
  const api = await connectKubernetes({ kubeconfigPath, clock, random })
  const reviews = await connectReviews({ kubeconfigPath, clock, random })
  const server = await startLiveServer(Object.create(davit, { api: { value: api } }) as TestDavit)
  const app = createApp({
    routes: allRoutes({
      endpoints: server.endpoints,
      publishing: server.publishing,
      credentials: server.credentials,
      settings: server.settings,
      boxTemplates: server.boxTemplates,
      deliveries: server.index,
      events: server.events,
      streams: server.streams,
      catalogue: server.catalogue,
      cursors: new Cursors(KEY, clock),
    }),
    version: '0.0.0-test',
    tokens: reviews.tokens,
    signatures: reviews.signatures,
    access: reviews.access,
    organizations: { has: (name) => server.organizations.get(name) !== undefined },
    clock,
    random,
    log: createLogger({
      level: 'info',
      clock,
      destination: { write: (line: string) => void davit.logLines.push(line) },
    }),
    hashKey: KEY,
  })
  const listener = createHttpServer(app, { random })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const stop = async () => {
    listener.closeAllConnections()
    await new Promise((resolve) => listener.close(resolve))
    await server.stop()
    await Promise.all([reviews.close(), api.close(), rm(folder, { recursive: true, force: true })])
  }
  return { baseUrl: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`, server, stop }
}
