/** Publishers that come by REST, in a process of their own. */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Publishers } from './davit-load.ts'
import { HttpClient } from './loads/http-client.ts'
import type { PublishTarget } from './loads/rest-publisher.ts'
import type { HttpPublisherCalls } from './processes/http-publisher.ts'
import { spawnProcess } from './processes/remote-calls.ts'
import type { KeyFiles } from './rest-server.ts'

export type ServerClients = Publishers & {
  pid: number
  /** Uses this REST server from now on, or several in turn, with one connection per client. */
  connect(
    server: PublishTarget | readonly PublishTarget[],
    keyFiles: KeyFiles,
    clients: number,
  ): Promise<void>
  stop(): Promise<void>
}

const KEYS_LIMIT_MS = 30_000
const POLL_MS = 100

export function startClients(): ServerClients {
  const path = fileURLToPath(new URL('./processes/http-publisher.ts', import.meta.url))
  const remote = spawnProcess<HttpPublisherCalls>(path)
  return {
    pid: remote.pid,
    publish: (load) => remote.call('publish', load),
    settled: (deliveries) => remote.call('settled', deliveries),
    async connect(server, keyFiles, connections) {
      const servers = [server].flat().map(({ baseUrl, ca }) => ({ baseUrl, ...(ca ? { ca } : {}) }))
      for (const one of servers) await untilKeysWork(one, keyFiles)
      await remote.call('connect', { servers, keyFiles, connections })
    },
    stop: () => remote.stop(),
  }
}

/** The API server applies a new role within moments; requests that are rejected until then would count. */
export async function untilKeysWork({ baseUrl, ca }: PublishTarget, keyFiles: KeyFiles): Promise<void> {
  const limit = performance.now() + KEYS_LIMIT_MS
  const client = new HttpClient(baseUrl, 1, ca)
  try {
    for (const [organization, file] of Object.entries(keyFiles)) {
      const key = await readFile(file, 'utf8')
      const path = `/organizations/${organization}/webhooks/event-types`
      for (;;) {
        const { status, text } = await client.send({ method: 'GET', path, key })
        if (status === 200) break
        if (performance.now() > limit) throw new Error(`the key of ${organization} is refused: ${text}`)
        await sleep(POLL_MS)
      }
    }
  } finally {
    await client.close()
  }
}
