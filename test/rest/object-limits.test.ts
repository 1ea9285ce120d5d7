/** Two REST servers that get create requests at the same time: an organization never has more endpoints or credentials than allowed. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leases, RESERVATION_LABEL } from '../../src/apis/core-kinds.ts'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { type FrontedServer, HOOKS, ORGANIZATION, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const LIMIT = 5
const ASKED = 24
const SETTINGS = {
  DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: String(LIMIT),
  DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION: String(LIMIT),
}
const CREDENTIALS = `/organizations/${ORGANIZATION}/registry-credentials`

let bed: FrontedServer
let servers: Pick<ServerProcess, 'baseUrl'>[]

beforeAll(async () => {
  bed = await startFrontedServer(SETTINGS)
  servers = [bed.server, await bed.startAnother(SETTINGS)]
}, 240_000)

afterAll(() => bed?.stop())

function post(number: number, path: string, body: object) {
  const server = servers[number % servers.length] ?? bed.server
  return ask(server, path, { method: 'POST', key: bed.key, body: JSON.stringify(body) })
}

describe.each([
  {
    of: 'endpoints',
    type: webhookEndpoints,
    path: HOOKS,
    code: 'too_many_endpoints',
    draft: { url: 'https://127.0.0.1/hook', eventTypes: ['environment.started'] },
    idOf: (json: Record<string, unknown>) => (json.endpoint as { endpointId: string }).endpointId,
  },
  {
    of: 'registry credentials',
    type: registryCredentials,
    path: CREDENTIALS,
    code: 'too_many_credentials',
    draft: {
      type: 'ecr',
      label: 'Our images',
      registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
    },
    idOf: ({ id }: Record<string, unknown>) => String(id),
  },
])('of $of', ({ type, path, code, draft, idOf }) => {
  const held = async () => (await bed.davit.api.list(type, { namespace: ORGANIZATION })).items.length

  test('as many are made as the limit allows, and a deleted one makes room at both servers', async () => {
    const answers = await Promise.all(Array.from({ length: ASKED }, (_, at) => post(at, path, draft)))
    const refused = answers.filter(({ status }) => status !== 201)
    expect(new Set(refused.map(({ status, json }) => `${status} ${json.code}`))).toEqual(
      new Set([`409 ${code}`]),
    )
    expect(answers.length - refused.length).toBe(LIMIT)
    expect(await held()).toBe(LIMIT)
    for (const at of [0, 1]) {
      const [one] = answers.filter(({ status }) => status === 201).slice(at)
      const gone = await ask(bed.server, `${path}/${idOf(one?.json ?? {})}`, {
        method: 'DELETE',
        key: bed.key,
      })
      expect(gone.status).toBe(204)
      await until(
        async () => (await held()) < LIMIT || undefined,
        () => 'it is not deleted',
      )
      // The watch of the other server may still show it.
      await until(
        async () => (await post(at, path, draft)).status === 201 || undefined,
        () => 'there is no room',
      )
      expect(await held()).toBe(LIMIT)
    }
    expect((await post(1, path, draft)).json.code).toBe(code)
    expect((await bed.davit.api.list(leases, { labelSelector: RESERVATION_LABEL })).items).toEqual([])
  })
})
