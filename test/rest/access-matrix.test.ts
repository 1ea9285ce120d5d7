/** Every route with every kind of API token, on an installed REST server, a controller and an API server. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { boxTemplates } from '../../src/apis/box-template.ts'
import { secrets } from '../../src/apis/core-kinds.ts'
import { createClock } from '../../src/lib/time.ts'
import { Cursors } from '../../src/server/lists.ts'
import { allRoutes } from '../../src/server/routes.ts'
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
} from '../support/access-matrix.ts'
import {
  type Installation,
  OPERATOR_NAMESPACE,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import { keyThatEnds } from '../support/key-that-ends.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { FakeServices } from '../support/server-services.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { templateObject } from '../support/template-object.ts'

const HOUR_SECONDS = 3600
const OWN = 'own'
const OTHER = 'other'
const CREDENTIAL = {
  type: 'ecr',
  label: 'Ours',
  registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
}
/** One for each organization. No route changes them. */
const BOX_TEMPLATES = { own: 'box-own', other: 'box-other' }
const INVENTED: Names[Whose] = {
  organization: 'nowhere',
  ids: {
    endpointId: 'whe_invented',
    deliveryId: `msg_${'0'.repeat(26)}`,
    eventId: `msg_${'0'.repeat(26)}`,
    credentialId: 'rc_invented',
    boxTemplateName: 'invented',
  },
}

const routes = allRoutes({
  ...new FakeServices([]),
  cursors: new Cursors(Buffer.from('k'), createClock()),
})

let davit: Installation
let server: ServerProcess
let receiver: Receiver
let keys: Record<KeyKind, string | undefined>
/** The permanent objects: a rejected request must leave them unchanged. */
let standing: Names
let before: unknown
/** What is answered where there is nothing. */
let notFound: Record<string, unknown>

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(OWN)
  await davit.makeOrganization(OTHER)
  const controller = await davit.startController()
  server = await davit.startServer()
  const [owner, viewer, publisher, otherOwner] = await Promise.all([
    davit.makeAccount(OWN, 'owner', 'davit-owner'),
    davit.makeAccount(OWN, 'viewer', 'davit-viewer'),
    davit.makeAccount(OWN, 'publisher', 'davit-publisher'),
    davit.makeAccount(OTHER, 'owner', 'davit-owner'),
  ])
  const key = await davit.makeKey(owner)
  keys = {
    none: undefined,
    garbage: 'garbage.garbage.garbage',
    expired: await keyThatEnds(davit.controlPlane, key, -HOUR_SECONDS),
    wrongAudience: await davit.makeToken(owner),
    viewer: await davit.makeKey(viewer),
    publisher: await davit.makeKey(publisher),
    otherOwner: await davit.makeKey(otherOwner),
    owner: key,
  }
  await Promise.all([controller.untilReady(), server.process.untilReady()])
  await untilLetIn({ server, organization: OWN, owner: key })
  await untilLetIn({ server, organization: OTHER, owner: keys.otherOwner ?? '' })
  await davit.api.create(boxTemplates, templateObject(OWN, BOX_TEMPLATES.own))
  await davit.api.create(boxTemplates, templateObject(OTHER, BOX_TEMPLATES.other))
  standing = { own: await furnish('own'), other: await furnish('other'), invented: INVENTED }
  before = await stateOf(standing)
  const nothing = await ask(server, '/organizations/nowhere/webhooks', { key })
  notFound = anonymous(nothing.json)
}, 180_000)
afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** An endpoint with a delivery, and a registry credential, made by the owner. */
async function furnish(whose: 'own' | 'other'): Promise<Names[Whose]> {
  const organization = whose === 'own' ? OWN : OTHER
  const key = whose === 'own' ? keys.owner : keys.otherOwner
  const hooks = `/organizations/${organization}/webhooks`
  const body = JSON.stringify({ url: `${receiver.url}/${whose}`, eventTypes: ['member.joined'] })
  const made = await ask(server, hooks, { method: 'POST', key, body })
  expect(made.status).toBe(201)
  const { endpointId } = made.json.endpoint as { endpointId: string }
  const pinged = await ask(server, `${hooks}/${endpointId}/ping`, { method: 'POST', key })
  expect(pinged.status).toBe(202)
  const credential = await ask(server, `/organizations/${organization}/registry-credentials`, {
    method: 'POST',
    key,
    body: JSON.stringify(CREDENTIAL),
  })
  expect(credential.status).toBe(201)
  const ids = {
    endpointId,
    deliveryId: String(pinged.json.webhookId),
    eventId: String(pinged.json.webhookId),
    credentialId: String(credential.json.id),
    boxTemplateName: BOX_TEMPLATES[whose],
  }
  return { organization, ids }
}

/** What the owners see of it, and which version its signing keys have. */
async function stateOf({ own, other }: Names): Promise<unknown> {
  const seen = [own, other].map(async ({ organization, ids: { endpointId = '', credentialId = '' } }) => {
    const key = organization === OWN ? keys.owner : keys.otherOwner
    const path = `/organizations/${organization}/webhooks/${endpointId}`
    const endpoint = await ask(server, path, { key })
    const log = await ask(server, `${path}/deliveries`, { key })
    const credential = await ask(
      server,
      `/organizations/${organization}/registry-credentials/${credentialId}`,
      {
        key,
      },
    )
    const name = `${organization}.${endpointId.replace('whe_', '')}`
    const { metadata } = await davit.api.get(secrets, { namespace: OPERATOR_NAMESPACE, name })
    const deliveries = (log.json.deliveries as { deliveryId: string }[]).map(({ deliveryId }) => deliveryId)
    return [
      endpoint.status,
      endpoint.headers.get('etag'),
      endpoint.json,
      deliveries,
      metadata.resourceVersion,
      credential.status,
      credential.headers.get('etag'),
      credential.json,
    ]
  })
  return await Promise.all(seen)
}

async function send(one: Case, names: Names) {
  const body = bodyOf(one.route)
  return await ask(server, pathOf(one, names), {
    method: one.route.method.toUpperCase(),
    key: keys[one.key],
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

test.each(casesOf(routes).map((one) => ({ ...one, words: describeCase(one) })))(
  'as the API server judges it: $words',
  async (one) => {
    const want = wanted(one)
    if (want === 'success') {
      await expectSuccess(one)
      return
    }
    const answer = await send(one, standing)
    expect(answer.status).toBe(want)
    // The same words for what is not there and what may not be seen.
    if (want === 404) expect(anonymous(answer.json)).toEqual(notFound)
  },
)

/** With something of its own, which it may take away. */
async function expectSuccess(one: Case): Promise<void> {
  const whose = one.key === 'otherOwner' ? 'other' : 'own'
  const fresh = await furnish(whose)
  const answer = await send(one, { ...standing, [whose]: fresh })
  expect(answer.status).toBe(one.route.success.status)
  const { endpoint, id } = answer.json as { endpoint?: { endpointId: string }; id?: string }
  await clear(fresh, whose, ['webhooks', fresh.ids.endpointId, endpoint?.endpointId])
  await clear(fresh, whose, ['registry-credentials', fresh.ids.credentialId, id])
}

async function clear(
  { organization }: Names[Whose],
  whose: 'own' | 'other',
  [kind, ...ids]: (string | undefined)[],
): Promise<void> {
  const key = whose === 'own' ? keys.owner : keys.otherOwner
  for (const id of new Set(ids)) {
    const path = `/organizations/${organization}/${kind}/${id}`
    if (id !== undefined) await ask(server, path, { method: 'DELETE', key })
  }
}

test('the key that has expired is wrong for its end alone', async () => {
  const key = await keyThatEnds(davit.controlPlane, keys.owner ?? '', HOUR_SECONDS)
  expect((await ask(server, `/organizations/${OWN}/webhooks`, { key })).status).toBe(200)
})

test('nothing that was refused has been done', async () => {
  expect(await stateOf(standing)).toEqual(before)
})
