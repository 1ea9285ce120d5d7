/** Publishers that come by REST, in a process of their own. */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Publishers } from './davit-load.ts'
import type { HttpPublisherCalls } from './processes/http-publisher.ts'
import { spawnProcess } from './processes/remote-calls.ts'
import type { KeyFiles, MeasuredServer } from './rest-server.ts'

export type ServerClients = Publishers & {
  pid: number
  /** Uses this REST server from now on, with one connection per client. */
  connect(server: MeasuredServer, keyFiles: KeyFiles, clients: number): Promise<void>
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
    async connect({ baseUrl }, keyFiles, connections) {
      await untilKeysWork(baseUrl, keyFiles)
      await remote.call('connect', { baseUrl, keyFiles, connections })
    },
    stop: () => remote.stop(),
  }
}

/** The API server applies a new role within moments; requests that are rejected until then would count. */
export async function untilKeysWork(baseUrl: string, keyFiles: KeyFiles): Promise<void> {
  const limit = performance.now() + KEYS_LIMIT_MS
  for (const [organization, file] of Object.entries(keyFiles)) {
    const authorization = await readFile(file, 'utf8')
    const url = `${baseUrl}/organizations/${organization}/webhooks/event-types`
    for (;;) {
      const answer = await fetch(url, { headers: { authorization } })
      const text = await answer.text()
      if (answer.ok) break
      if (performance.now() > limit) throw new Error(`the key of ${organization} is refused: ${text}`)
      await sleep(POLL_MS)
    }
  }
}
