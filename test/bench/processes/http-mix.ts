/** Sends very many requests to the REST server, most of which cost only the server itself. */
import { readFile } from 'node:fs/promises'
import { type Asked, HttpClient } from '../loads/http-client.ts'
import { serveCalls } from './remote-calls.ts'

export type HttpMixCalls = {
  /** `type` is one that the organizations' endpoints subscribe to, `endpointId` of one that each of them has. */
  connect: (to: {
    baseUrl: string
    keyFiles: Record<string, string>
    clients: number
    endpointId: string
    type: string
  }) => Promise<void>
  /** So many, as fast as answers come. @returns seconds @throws Error when one is not answered as it should be */
  ask: (requests: number) => Promise<number>
}

type Tenant = { path: string; key: string }
type Target = { endpointId: string; type: string }

/** One of so many requests is of each kind below; all others ask for the event types. */
const ONE_OF = 20

const KINDS: readonly ((tenant: Tenant, target: Target) => Asked)[] = [
  ({ path, key }, { endpointId }) => get(key, `${path}/webhooks/${endpointId}`, 200),
  ({ path, key }) => get(key, `${path}/webhooks`, 200),
  ({ path, key }, { endpointId }) => get(key, `${path}/webhooks/${endpointId}/deliveries?limit=10`, 200),
  ({ path, key }, { type }) => publish(key, path, { type, body: { text: 'x'.repeat(100) }, wanted: 202 }),
  ({ path, key }) => publish(key, path, { type: 'no.such-type', body: {}, wanted: 422 }),
  ({ path }) => ({ method: 'GET', path: `${path}/webhooks`, wanted: 401 }),
  ({ key }) => get(key, '/organizations/nobody/webhooks', 404),
]

let ready: { client: HttpClient; clients: number; tenants: Tenant[]; target: Target } | undefined
let sent = 0

serveCalls({
  async connect({ baseUrl, keyFiles, clients, endpointId, type }) {
    const tenants: Tenant[] = []
    for (const [organization, file] of Object.entries(keyFiles))
      tenants.push({ path: `/organizations/${organization}`, key: await readFile(file, 'utf8') })
    const target = { endpointId, type }
    ready = { client: new HttpClient(baseUrl, clients), clients, tenants, target }
  },
  async ask(requests) {
    if (!ready) throw new Error('there is no connection')
    const { client, clients } = ready
    const end = sent + requests
    const started = performance.now()
    const one = async () => {
      while (sent < end) {
        const { wanted, ...request } = requestOf(sent, ready)
        sent += 1
        const { status, text } = await client.send(request)
        if (status !== wanted) throw new Error(`${request.path} is answered with ${status}: ${text}`)
      }
    }
    await Promise.all(Array.from({ length: clients }, one))
    return (performance.now() - started) / 1000
  },
} satisfies HttpMixCalls)

function requestOf(n: number, from: { tenants: Tenant[]; target: Target } | undefined): Asked {
  const tenant = from?.tenants[Math.floor(n / ONE_OF) % from.tenants.length]
  if (!from || !tenant) throw new Error('there is no organization')
  const make = KINDS[n % ONE_OF]
  return make?.(tenant, from.target) ?? get(tenant.key, `${tenant.path}/webhooks/event-types`, 200)
}

function get(key: string, path: string, wanted: number): Asked {
  return { method: 'GET', key, path, wanted }
}

function publish(
  key: string,
  path: string,
  { type, body, wanted }: { type: string; body: object; wanted: number },
): Asked {
  const text = JSON.stringify({ type, data: body })
  return { method: 'POST', key, path: `${path}/events`, body: text, wanted }
}
