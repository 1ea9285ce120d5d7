import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest'
import { connectReviews, type Reviews } from '../../src/adapters/kubernetes/reviews.ts'
import { createClock } from '../../src/adapters/system/clock.ts'
import { createRandom } from '../../src/adapters/system/random.ts'
import { createCursors } from '../../src/rest/cursor.ts'
import { webhookRoutes } from '../../src/rest/routes/webhook-routes.ts'
import { BODIES, casesOf, type KeyKind, type Names, pathOf, wanted } from '../support/access-matrix.ts'
import { applyRoles, makeAccount, makeBoundTokens, makeToken } from '../support/api-keys.ts'
import { testNamespace } from '../support/control-plane.ts'
import { ask, type FacadeBed, openFacade } from '../support/facade-bed.ts'
import { DELIVERY_ID, FakeServices, idIn } from '../support/facade-services.ts'

const clock = createClock()
const routes = webhookRoutes({ ...new FakeServices([]), cursors: createCursors(Buffer.from('k'), clock) })

let own: string
let other: string
let keys: Record<KeyKind, string | undefined>
let reviews: Reviews
let bed: FacadeBed

beforeAll(async () => {
  await applyRoles()
  own = await testNamespace('matrix')
  other = await testNamespace('matrix-other')
  await makeAccount(own, 'owner', 'davit-owner')
  await makeAccount(own, 'viewer', 'davit-viewer')
  await makeAccount(own, 'publisher', 'davit-publisher')
  await makeAccount(own, 'revoked', 'davit-owner')
  await makeAccount(other, 'owner', 'davit-owner')
  const { tokens: bound, revoke } = await makeBoundTokens(own, 'revoked')
  keys = {
    none: undefined,
    garbage: 'garbage',
    expired: bound[0],
    wrongAudience: await makeToken(own, 'owner', { audiences: [] }),
    viewer: await makeToken(own, 'viewer'),
    publisher: await makeToken(own, 'publisher'),
    otherOwner: await makeToken(other, 'owner'),
    owner: await makeToken(own, 'owner'),
  }
  reviews = await connectReviews({ kubeconfigPath: inject('kubeconfig'), clock, random: createRandom() })
  await revoke()
  await vi.waitFor(async () => expect(await reviews.tokens.review(bound[1])).toBeUndefined())
  const { tokens, access } = reviews
  bed = await openFacade({ clock, tokens, access, organizations: [own, other] })
})
afterAll(async () => {
  await bed.close()
  await reviews.close()
})

beforeEach(() => {
  bed.services.asked.length = 0
})

test.each(casesOf(routes).map((one) => ({ ...one, name: one.route.id })))(
  '$name with key "$key" on "$target", as the API server judges it',
  async (one) => {
    const names: Names = {
      organizations: { own, other, invented: 'nowhere' },
      ids: {
        own: { endpointId: idIn(own), deliveryId: DELIVERY_ID },
        other: { endpointId: idIn(other), deliveryId: DELIVERY_ID },
        invented: { endpointId: 'whe_invented', deliveryId: DELIVERY_ID },
      },
    }
    const body = BODIES[one.route.id]
    const answer = await ask(bed, pathOf(one, names), {
      method: one.route.method.toUpperCase(),
      key: keys[one.key],
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const { status } = wanted(one)
    expect(answer.status).toBe(status === 'success' ? one.route.success.status : status)
    if (status === 401 || status === 403) expect(bed.services.asked).toEqual([])
  },
)
