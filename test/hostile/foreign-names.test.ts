/**
 * An organization writes the names of another one in every possible field: nothing of the other one is revealed, sent, changed or
 * delayed.
 */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventTypeKind } from '../../src/apis/event-type.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { API_VERSION, resourceType, SHARD_LABEL } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError, type RawObject } from '../../src/kube/client.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { RestOwner } from '../canary/rest-owner.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { connectOrganization } from '../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../support/aws/organization-account.ts'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { listAll } from '../support/list-all.ts'
import { installLooseCrds } from '../support/loose-crds.ts'
import { isSignedBy, type Receiver, startReceiver, untilQuiet } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'
import { type Drawn, draw } from './forgeries.ts'
import { GOOD_OBJECTS, isOfTheLog } from './good-objects.ts'
import { namesIn, renamed } from './names-of-others.ts'
import { attemptsOf, objectsOf, signingSecretsOf } from './organization-objects.ts'
import { seedOfRun } from './seed.ts'

const SEED = seedOfRun(31)
const OBJECTS = Number(process.env.HOSTILE_OBJECTS ?? 180)
const EVENT_EVERY = 6
const OURS = 'acme'
const THEIRS = 'globex'
/** Only in events of the other organization. */
const CANARY = `canary-${randomBytes(12).toString('hex')}`
const TYPE = 'billing.updated'
const FAILING_TYPE = 'environment.started'
const LIMIT_MS = 180_000 + OBJECTS * 400
const SETTINGS = { DAVIT_CLOUD_WRITES_PER_SECOND: '1000' }
const QUIET_MS = 3000
const OUR_ENDPOINT = 'ours'
/** Only in our last event. */
const LAST = randomBytes(12).toString('hex')
const ENDPOINTS = ['theirs', 'theirs-log', 'failing']
/** Kinds that an organization writes itself. */
const KINDS = GOOD_OBJECTS.filter(({ kind }) => !isOfTheLog(kind) && kind !== eventTypeKind)

let davit: Installation
let aws: TestAws
let receiver: Receiver
let controller: RoleProcess
let server: ServerProcess
let ours: string
let theirs: string
let credential: string
let storedValue: () => string | undefined

const random = new SeededRandom(SEED)
let stored = 0
let refused = 0
let published = 0
let crashed = 0

beforeAll(async () => {
  receiver = await startReceiver()
  aws = await TestAws.start()
  davit = await startInstallation()
  for (const one of [OURS, THEIRS]) await davit.makeOrganization(one)
  ours = await davit.makeKey(await davit.makeAccount(OURS, 'owner', 'davit-owner'))
  theirs = await davit.makeKey(await davit.makeAccount(THEIRS, 'owner', 'davit-owner'))
  await startBoth()
  await untilLetIn({ server, organization: OURS, owner: ours })
  await untilLetIn({ server, organization: THEIRS, owner: theirs })
  await connectBoth()
  for (const name of ENDPOINTS) await makeTheirs(name)
  await makeEndpoint(OURS, OUR_ENDPOINT, { url: `${receiver.url}/ours`, eventTypes: [TYPE] })
  await installLooseCrds(davit.controlPlane)
}, 300_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await aws?.stop()
})

async function startBoth(): Promise<void> {
  controller = await davit.startController({ ...SETTINGS, ...aws.environment() })
  server = await davit.startServer({ settings: { ...SETTINGS, ...aws.environment() } })
  for (const process of [controller, server.process]) await process.untilReady()
}

async function connectBoth(): Promise<void> {
  const secret = randomBytes(20).toString('hex')
  for (const [organization, id] of [
    [OURS, '222222222222'],
    [THEIRS, '333333333333'],
  ] as const) {
    const account = aws.emulator.accounts.add(id)
    const role = `davit-${organization}`
    await connectOrganization({ api: davit.api, organization, region: REGION, account, role })
    storedValue = () => account.parameters(REGION).value(`/davit/${THEIRS}/${credential}`)
  }
  const keys = new Map([[THEIRS, theirs]])
  const made = await new RestOwner({ baseUrl: server.baseUrl, keys, heard: () => undefined }).create(
    THEIRS,
    secret,
  )
  if (!made.done) throw new Error(made.why)
  credential = made.id
  expect(storedValue()).toBe(secret)
}

async function makeEndpoint(namespace: string, name: string, spec: object): Promise<void> {
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name, namespace },
    spec,
  })
}

async function makeTheirs(name: string): Promise<void> {
  if (name === 'failing') receiver.answer(`/${name}`, { status: 503 })
  await makeEndpoint(THEIRS, name, {
    url: `${receiver.url}/${name}`,
    eventTypes: [name === 'failing' ? FAILING_TYPE : TYPE],
  })
}

async function publish(namespace: string, type: string, data: object): Promise<void> {
  await davit.api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: { name: sortableName(Date.now(), randomBytes(10)), namespace },
    spec: { type, dataText: JSON.stringify(data) },
  })
}

async function publishTheirs(): Promise<void> {
  await publish(THEIRS, TYPE, { n: published, of: CANARY })
  published += 1
}

async function storeOurs({ kind, chance, ...parts }: Drawn, names: readonly string[]): Promise<void> {
  const type = resourceType(kind)
  const own = random.chance(0.3) ? random.pick(names) : sortableName(Date.now(), randomBytes(10))
  const labels = { [SHARD_LABEL]: String(Math.floor(random.between(0, 256))) }
  const { metadata: others, spec, status } = renamed(parts, names, random, chance)
  const metadata = { name: own, labels, ...others, namespace: OURS }
  // An object that takes the place of another one replaces it.
  const isOther = type.plural !== webhookEndpoints.plural || metadata.name !== OUR_ENDPOINT
  try {
    if (isOther) await davit.api.delete(type, metadata).catch(() => undefined)
    await davit.api.create(type, { apiVersion: API_VERSION, kind: kind.kind, metadata, spec } as RawObject)
    stored += 1
    // An object without a status is new.
    if (kind.status && random.chance(0.5))
      await davit.api.patch(type, metadata, { status } as object, { subresource: 'status' })
  } catch (error) {
    // The name is invalid, or the previous object is still being deleted.
    if (!isApiError(error)) throw error
    refused += 1
  }
}

/** Stops both processes; neither may have ended by itself. */
async function stopBoth(): Promise<void> {
  for (const process of [controller, server.process]) if (!process.running) crashed += 1
  await Promise.all([controller.stop(), server.process.stop()])
}

/** Everything that REST returns to us. */
async function readByUs(): Promise<string> {
  const endpoints = (await listAll(davit.api, webhookEndpoints, { namespace: OURS })).map(
    ({ metadata }) => `webhooks/whe_${metadata.name}/deliveries`,
  )
  const what = ['webhooks', 'webhooks/event-types', 'registry-credentials', 'secrets-settings', ...endpoints]
  const answers: string[] = []
  for (const one of what) {
    let last = ''
    const { text } = await until(
      async () => {
        const answer = await ask(server, `/organizations/${OURS}/${one}`, { key: ours })
        last = `${answer.status} ${answer.text}`
        // Ours may be unreadable by now.
        return answer.status === 200 || answer.status === 404 ? answer : undefined
      },
      () => `${one} is answered with ${last}`,
    )
    answers.push(text)
  }
  return answers.join('\n')
}

function kept({ metadata, spec, status }: RawObject) {
  const { state, lastHandled, parameter, roleArn } = (status ?? {}) as Record<string, unknown>
  const { name, uid, labels, annotations, generation } = metadata
  return { name, uid, labels, annotations, generation, spec, state, lastHandled, parameter, roleArn }
}

const LASTING = kinds.filter(({ kind }) =>
  /^(WebhookEndpoint|RegistryCredential|SecretsSettings)$/.test(kind),
)

test(
  'nothing of another organization is shown, sent, changed or held up, whatever names of it are written',
  async () => {
    await publish(THEIRS, FAILING_TYPE, { of: CANARY, filler: 'x'.repeat(20_000) })
    await publish(THEIRS, FAILING_TYPE, { of: CANARY })
    await publishTheirs()
    await receiver.waitFor(2, { path: '/failing' })
    for (const path of ['/theirs', '/theirs-log']) await receiver.waitFor(1, { path })
    const before = (await objectsOf(davit.api, THEIRS, LASTING)).map(kept)
    const value = storedValue()
    const signing = await signingSecretsOf(davit.api, THEIRS, ENDPOINTS)
    const theirObjects = await objectsOf(davit.api, THEIRS)
    const ourObjects = await objectsOf(davit.api, OURS)
    const our = ourObjects.find(({ metadata }) => metadata.name === OUR_ENDPOINT)
    if (!our) throw new Error('ours is not there')
    const names = namesIn([...theirObjects, ...ourObjects], CANARY)

    for (let i = 0; i < OBJECTS; i += 1) {
      const good = KINDS[i % KINDS.length]
      if (good) await storeOurs(draw(good, { random, theirs: theirObjects, our, secret: CANARY }), names)
      if (i % EVENT_EVERY === 0) await publishTheirs()
      if (i !== Math.floor(OBJECTS / 2)) continue
      await stopBoth()
      await startBoth()
    }
    await stopBoth()
    await startBoth()
    await publishTheirs()
    await publish(OURS, TYPE, { of: LAST })
    await until(
      async () => receiver.received('/ours').find(({ body }) => body.includes(LAST)),
      () => 'ours is not served',
      LIMIT_MS,
    )
    const theirRequests = () => receiver.requests.filter((request) => isSignedBy(request, signing))
    for (const path of ['/theirs', '/theirs-log'])
      await until(
        async () => theirRequests().filter((one) => one.path === path)[published - 1],
        () => `${path} is not served`,
        LIMIT_MS,
      )

    // What was found at the start is sent by then.
    await untilQuiet(receiver, QUIET_MS)
    const requests = theirRequests()
    const foreign = receiver.requests.filter((request) => !requests.includes(request))
    const visible = `${await readByUs()}\n${JSON.stringify(await objectsOf(davit.api, OURS))}`
    const leakedSecrets = [CANARY, value ?? '', ...signing].filter((secret) => visible.includes(secret))
    tellFigures('foreign-names', {
      seed: SEED,
      'objects stored': stored,
      'refused by the API server': refused,
      'names of both organizations': names.length,
      'webhooks with its data elsewhere': foreign.filter(({ body }) => body.includes(CANARY)).length,
      'its secrets shown': leakedSecrets.length,
      'its events': published,
      'its events received': new Set(requests.map(({ headers }) => headers['webhook-id'])).size - 2,
      'process exits': crashed,
    })
    expect(foreign.filter(({ body }) => body.includes(CANARY))).toEqual([])
    expect(leakedSecrets).toEqual([])
    expect(requests.every(({ body }) => body.includes(CANARY))).toBe(true)
    for (const path of ['/theirs', '/theirs-log']) {
      const ids = requests.filter((one) => one.path === path).map(({ headers }) => headers['webhook-id'])
      expect([ids.length, new Set(ids).size]).toEqual([published, published])
    }
    // A retry may be in progress.
    await until(
      async () => {
        const made = theirRequests().filter(({ path }) => path === '/failing').length
        return (await attemptsOf(davit.api, THEIRS, 'failing')) === made ? true : undefined
      },
      () => 'attempts are not those that were made',
    )
    expect((await objectsOf(davit.api, THEIRS, LASTING)).map(kept)).toEqual(before)
    expect(storedValue()).toBe(value)
    expect(crashed + [controller, server.process].filter(({ running }) => !running).length).toBe(0)
    expect(stored).toBeGreaterThan(OBJECTS / 2)
  },
  LIMIT_MS * 2,
)
