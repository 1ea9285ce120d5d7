import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  anonymous,
  bodyOf,
  type Case,
  casesOf,
  describeCase,
  type KeyKind,
  type Names,
  pathOf,
  type Whose,
  wanted,
} from '../../test/support/access-matrix.ts'
import { FakeClock } from '../../test/support/fake-clock.ts'
import {
  ask,
  KEYS,
  ORGANIZATION,
  OTHER_ORGANIZATION,
  openServerBed,
  type ServerBed,
} from '../../test/support/server-bed.ts'
import {
  credentialIn,
  deliveryIn,
  FakeServices,
  idIn,
  templateIn,
} from '../../test/support/server-services.ts'
import { Cursors } from './lists.ts'
import { allRoutes } from './routes.ts'

const INVENTED = 'nowhere'

function named(organization: string): Names[Whose] {
  return {
    organization,
    ids: {
      endpointId: idIn(organization),
      deliveryId: deliveryIn(organization),
      eventId: deliveryIn(organization),
      credentialId: credentialIn(organization),
      boxTemplateName: templateIn(organization),
    },
  }
}

const NAMES: Names = {
  own: named(ORGANIZATION),
  other: named(OTHER_ORGANIZATION),
  invented: named(INVENTED),
}

const KEY_VALUES: Record<KeyKind, string | undefined> = { ...KEYS, none: undefined, garbage: 'garbage' }

const fakes = new FakeServices([])
const routes = allRoutes({ ...fakes, cursors: new Cursors(Buffer.from('k'), new FakeClock()) })

let bed: ServerBed
/** What is answered where there is nothing. */
let notFound: Record<string, unknown>
beforeAll(async () => {
  bed = await openServerBed()
  notFound = anonymous((await ask(bed, `/organizations/${INVENTED}/webhooks`, { key: KEYS.owner })).json)
})
afterAll(() => bed.close())
beforeEach(() => {
  bed.services.asked.length = 0
})

function send(one: Case) {
  const body = bodyOf(one.route)
  return ask(bed, pathOf(one, NAMES), {
    method: one.route.method.toUpperCase(),
    key: KEY_VALUES[one.key],
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

test.each(casesOf(routes).map((one) => ({ ...one, words: describeCase(one) })))(
  'is answered as its declaration says: $words',
  async (one) => {
    const want = wanted(one)
    const answer = await send(one)
    expect(answer.status).toBe(want === 'success' ? one.route.success.status : want)
    // The same words for what is not there and what may not be seen.
    if (want === 404) expect(anonymous(answer.json)).toEqual(notFound)
    const home = one.key === 'otherOwner' ? 'other' : 'own'
    const letIn = want === 'success' || (want === 404 && one.organization === home)
    if (!letIn) expect(bed.services.asked).toEqual([])
  },
)

test('the headers, too, are the same for what is not there and what may not be seen, on every route', async () => {
  for (const route of routes) {
    const cases = casesOf([route]).filter((one) => one.key === 'owner' && wanted(one) === 404)
    const [hidden, missing] = [true, false].map((away) =>
      cases.filter(({ organization }) => (organization !== 'own') === away),
    )
    for (const group of [hidden, missing]) {
      const names = await Promise.all(
        (group ?? []).map(async (one) => [...(await send(one)).headers.keys()].sort().join()),
      )
      expect(new Set(names).size).toBeLessThanOrEqual(1)
    }
  }
})
