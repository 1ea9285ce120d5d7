import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  BODIES,
  casesOf,
  type KeyKind,
  type Names,
  pathOf,
  wanted,
} from '../../test/support/access-matrix.ts'
import {
  ask,
  type FacadeBed,
  KEYS,
  ORGANIZATION,
  OTHER_ORGANIZATION,
  openFacade,
} from '../../test/support/facade-bed.ts'
import { DELIVERY_ID, FakeServices, idIn } from '../../test/support/facade-services.ts'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { createCursors } from './cursor.ts'
import type { Route } from './route.ts'
import { webhookRoutes } from './routes/webhook-routes.ts'

const NAMES: Names = {
  organizations: { own: ORGANIZATION, other: OTHER_ORGANIZATION, invented: 'nowhere' },
  ids: {
    own: { endpointId: idIn(ORGANIZATION), deliveryId: DELIVERY_ID },
    other: { endpointId: idIn(OTHER_ORGANIZATION), deliveryId: DELIVERY_ID },
    invented: { endpointId: 'whe_invented', deliveryId: DELIVERY_ID },
  },
}

const KEY_VALUES: Record<KeyKind, string | undefined> = { ...KEYS, none: undefined, garbage: 'garbage' }

const fakes = new FakeServices([])
const routes = webhookRoutes({ ...fakes, cursors: createCursors(Buffer.from('k'), new FakeClock()) })

let bed: FacadeBed
beforeAll(async () => {
  bed = await openFacade()
})
afterAll(() => bed.close())
beforeEach(() => {
  bed.services.asked.length = 0
})

/** The body of a problem but for what names the request. */
function anonymous(json: Record<string, unknown>): Record<string, unknown> {
  return { ...json, requestId: undefined }
}

const send = (route: Route, path: string, key: string | undefined) => {
  const body = BODIES[route.id]
  return ask(bed, path, {
    method: route.method.toUpperCase(),
    key,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

test.each(casesOf(routes).map((one) => ({ ...one, name: one.route.id })))(
  '$name with key "$key" on "$target"',
  async (one) => {
    const { status } = wanted(one)
    const answer = await send(one.route, pathOf(one, NAMES), KEY_VALUES[one.key])
    expect(answer.status).toBe(status === 'success' ? one.route.success.status : status)
    const reached = bed.services.asked.length > 0
    if (status === 401 || status === 403) expect(reached).toBe(false)
    if (status === 404 && !one.target.endsWith('Id')) expect(reached).toBe(false)
  },
)

test('what is not there and what may not be seen are refused in the same words, on every route', async () => {
  for (const route of routes) {
    const other = await send(route, pathOf({ route, key: 'owner', target: 'other' }, NAMES), KEYS.owner)
    const invented = await send(route, pathOf({ route, key: 'owner', target: 'invented' }, NAMES), KEYS.owner)
    expect(anonymous(other.json)).toEqual(anonymous(invented.json))
    expect([...other.headers.keys()].sort()).toEqual([...invented.headers.keys()].sort())
    if (!route.params) continue
    const foreign = await send(route, pathOf({ route, key: 'owner', target: 'foreignId' }, NAMES), KEYS.owner)
    const none = await send(route, pathOf({ route, key: 'owner', target: 'inventedId' }, NAMES), KEYS.owner)
    expect(anonymous(foreign.json)).toEqual(anonymous(none.json))
    expect(anonymous(foreign.json)).toEqual(anonymous(other.json))
  }
})
