/** What people see with kubectl of objects that Davit drives: columns, selections, waits, Events, explanations. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kubectl } from '../support/control-plane.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

/** A table as kubectl prints it. */
type Row = Record<string, string>

const AGE = expect.stringMatching(/^\d+[sm]/)
const INSTANT = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/)

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('kubectl', { recordEvents: true })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function inNamespace(...args: string[]): Promise<string> {
  return kubectl(['-n', davit.organization, ...args])
}

async function table(...args: string[]): Promise<Row[]> {
  return rowsOf(await inNamespace('get', ...args))
}

/** The cells of each line by the heads of their columns; a cell begins where its head does. */
function rowsOf(printed: string): Row[] {
  const [head = '', ...lines] = printed.trimEnd().split('\n')
  const heads = [...head.matchAll(/\S+( \S+)*/g)].map((match) => ({ name: match[0], from: match.index }))
  return lines.map((line) =>
    Object.fromEntries(
      heads.map(({ name, from }, i) => [name, line.slice(from, heads[i + 1]?.from ?? line.length).trim()]),
    ),
  )
}

/** An endpoint for a type of its own. */
async function endpoint(name: string, spec: Record<string, unknown> = {}): Promise<string> {
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type], ...spec })
  return type
}

describe('kubectl get', () => {
  test('wep shows where endpoints are, their state, whether they are ready and how they fail', async () => {
    const type = await endpoint('columns', { ordered: true })
    await endpoint('columns-paused', { state: 'disabled' })
    const url = `${receiver.url}/columns`
    const rest = { READY: 'True', FAILURES: '0', CODE: '', 'LAST-SUCCESS': '', ERROR: '', AGE }
    expect(await table('wep', 'columns', 'columns-paused')).toEqual([
      { NAME: 'columns', STATE: 'enabled', REASON: 'Accepted', URL: url, ...rest },
      { NAME: 'columns-paused', STATE: 'disabled', REASON: 'Paused', URL: `${url}-paused`, ...rest },
    ])
    const [wide] = await table('wep', 'columns', '-o', 'wide')
    expect(wide).toMatchObject({ ORDERED: 'true', EVENTS: `["${type}"]` })
  })

  test('wdl shows deliveries, the newest first, with state, attempts and the time of the next', async () => {
    receiver.answer('/log', { status: 503, body: 'later' }, {}, {})
    const type = await endpoint('log')
    await davit.publish(type, { n: 1 })
    const [retrying] = await driveToAttempt(davit, 'log', 1)
    // Ids tell times apart by whole seconds, and that of a ping is made of the time that it was asked for.
    davit.clock.jump(2000)
    await davit.annotate('log', { 'davit.dev/ping-requested-at': davit.time() })
    await davit.deliveriesWhen('log', ([newest]) => newest?.status?.state === 'succeeded')
    const rows = await table('wdl', '--field-selector', 'spec.endpoint=log')
    const NAME = expect.stringMatching(/^[0-9a-z]{26}-[0-9a-z]{8}$/)
    expect(rows).toEqual([
      {
        NAME,
        ENDPOINT: 'log',
        TYPE: 'webhook.ping',
        STATE: 'succeeded',
        ATTEMPTS: '1',
        CODE: '200',
        NEXT: '',
        AGE,
      },
      {
        NAME: retrying?.metadata.name,
        ENDPOINT: 'log',
        TYPE: type,
        STATE: 'retrying',
        ATTEMPTS: '1',
        CODE: '503',
        NEXT: retrying?.status?.nextAttemptAt,
        AGE,
      },
    ])
    expect(rows[1]).toMatchObject({ NEXT: INSTANT })
    const wide = await table('wdl', '-o', 'wide', '--field-selector', 'spec.endpoint=log')
    expect(wide.map(({ ERROR }) => ERROR)).toEqual(['', retrying?.status?.attempts?.[0]?.error])
    expect(wide[1]?.ERROR).toContain('503')
    await driveToEnd(davit, 'log', 2)
  })

  test('wdl selects by endpoint, state, type and id', async () => {
    receiver.answer('/selected', { status: 500 }, {})
    const type = await endpoint('selected')
    await endpoint('passed-over', { eventTypes: [type] })
    const event = await davit.publish(type, {})
    await driveToAttempt(davit, 'selected', 1)
    await driveToEnd(davit, 'passed-over')
    const id = event.status?.eventId ?? ''
    const endpointsBy = async (selector: string) =>
      (await table('wdl', '--field-selector', selector)).map(({ ENDPOINT }) => ENDPOINT).sort()
    expect(await endpointsBy('spec.endpoint=selected')).toEqual(['selected'])
    expect(await endpointsBy(`spec.deliveryId=${id}`)).toEqual(['passed-over', 'selected'])
    expect(await endpointsBy(`spec.eventType=${type},status.state=retrying`)).toEqual(['selected'])
    expect(await endpointsBy(`spec.deliveryId=${id},status.state=succeeded`)).toEqual(['passed-over'])
    await driveToEnd(davit, 'selected')
  })

  test('wev shows what became of events; wet what types there are', async () => {
    const type = await endpoint('events')
    const sent = await davit.publish(type, {})
    await driveToEnd(davit, 'events')
    await davit.eventWhen(sent.metadata.name, ({ status }) => status?.state === 'dispatched')
    const refused = await davit.publish(`${type}.unknown`, {})
    const [first, second] = await Promise.all(
      [sent, refused].map(async ({ metadata }) => (await table('wev', metadata.name, '-o', 'wide'))[0]),
    )
    const id = sent.status?.eventId
    expect(first).toMatchObject({ TYPE: type, STATE: 'dispatched', DELIVERIES: '1', ID: id, AGE })
    expect(second).toMatchObject({ STATE: 'refused', DELIVERIES: '', REASON: 'UnknownType', AGE })
    const states = await table('wev', '--field-selector', 'status.state=refused')
    expect(states.map(({ NAME }) => NAME)).toEqual([refused.metadata.name])
    expect(rowsOf(await kubectl(['get', 'wet', type]))).toEqual([
      { NAME: type, TYPE: type, READY: 'True', REASON: 'Accepted', DESCRIPTION: 'For a test.', AGE },
    ])
  })

  test('davit lists every kind but the numerous ones', async () => {
    const type = await endpoint('category')
    await davit.publish(type, {})
    await driveToEnd(davit, 'category')
    const names = (await inNamespace('get', 'davit', '-o', 'name')).split('\n')
    const kindsOf = new Set(names.map((name) => name.split('/')[0]))
    for (const kind of ['webhookendpoint', 'webhookevent', 'eventtype'])
      expect(kindsOf).toContain(`${kind}.davit.dev`)
    expect(kindsOf).not.toContain('webhookdelivery.davit.dev')
    const log = await kubectl(['-n', davit.namespace, 'get', 'davit', '-o', 'name'])
    expect(log).not.toContain('segment')
    expect(
      await kubectl(['-n', davit.namespace, 'get', 'deliverysegments,outcomesegments', '-o', 'name']),
    ).not.toBe('')
  })
})

describe('kubectl wait', () => {
  test('for a delivery ends when it has succeeded, and not before', async () => {
    receiver.answer('/waited', { status: 500 }, {})
    const type = await endpoint('waited')
    await davit.publish(type, {})
    const [delivery] = await driveToAttempt(davit, 'waited', 1)
    const forSuccess = (timeout: string) =>
      inNamespace(
        'wait',
        '--for=jsonpath={.status.state}=succeeded',
        `wdl/${delivery?.metadata.name}`,
        `--timeout=${timeout}`,
      )
    await expect(forSuccess('0')).rejects.toThrow(/condition not met/)
    const waiting = forSuccess('20s')
    await driveToEnd(davit, 'waited')
    expect(await waiting).toContain('condition met')
  })

  test('for Ready ends when the endpoint is in force, and a change of it must be seen first', async () => {
    const made = kubectl(
      ['-n', davit.organization, 'apply', '-f', '-'],
      `
apiVersion: davit.dev/v1alpha1
kind: WebhookEndpoint
metadata: { name: ready }
spec: { url: "${receiver.url}/ready", eventTypes: ['*'], state: disabled }
`,
    )
    const forReady = (timeout: string) =>
      inNamespace('wait', '--for=condition=Ready', 'wep/ready', `--timeout=${timeout}`)
    await made
    expect(await forReady('20s')).toContain('condition met')
    await davit.controller.stop()
    await inNamespace('patch', 'wep', 'ready', '--type=merge', '-p', '{"spec":{"description":"changed"}}')
    await expect(forReady('0')).rejects.toThrow(/condition not met/)
    const waiting = forReady('20s')
    await davit.startController()
    expect(await waiting).toContain('condition met')
  })
})

test('kubectl describe wep shows its Events', async () => {
  await endpoint('described')
  await inNamespace('annotate', 'wep', 'described', `davit.dev/ping-requested-at=${davit.time()}`)
  await receiver.waitFor(1, { path: '/described' })
  // An Event is written in parallel to its cause.
  const events = await until(
    async () => {
      const [, shown = ''] = (await inNamespace('describe', 'wep', 'described')).split(/^Events:/m)
      return shown.includes('Pinged') ? shown : undefined
    },
    () => 'it has no Events',
  )
  expect(events).toMatch(
    /Normal\s+Pinged\s.*davit.*Davit is sending a webhook\.ping event with the ID msg_[0-9a-z]{26}\./,
  )
})

test('kubectl explain says what a field means and takes', async () => {
  expect(await kubectl(['explain', 'wep.spec.url'])).toMatch(
    /FIELD: url <string>(.|\n)*HTTPS URL that receives the deliveries/,
  )
  expect(await kubectl(['explain', 'wep.spec.state'])).toMatch(/ENUM:\s+enabled\s+disabled/)
  expect(await kubectl(['explain', 'wdl.status.nextAttemptAt'])).toContain(
    'nextAttemptAt is when the next attempt is due.',
  )
})

test('kinds have short names of one form, and those of which there are many are in no category', async () => {
  type Resource = { name: string; shortNames?: string[]; categories?: string[]; namespaced: boolean }
  const { resources } = JSON.parse(await kubectl(['get', '--raw', '/apis/davit.dev/v1alpha1'])) as {
    resources: Resource[]
  }
  const kinds = resources.filter(({ name }) => !name.includes('/'))
  expect(Object.fromEntries(kinds.map(({ name, shortNames = [] }) => [name, shortNames.join()]))).toEqual({
    webhookendpoints: 'wep',
    webhookevents: 'wev',
    webhookdeliveries: 'wdl',
    eventtypes: 'wet',
    registrycredentials: 'rcr',
    secretssettings: 'sst',
    boxtemplates: 'btp',
    deliverysegments: '',
    outcomesegments: '',
  })
  const named = (test: (resource: Resource) => boolean) => kinds.filter(test).map(({ name }) => name)
  expect(named(({ namespaced }) => !namespaced)).toEqual(['eventtypes'])
  expect(named(({ categories = [] }) => !categories.includes('davit')).sort()).toEqual([
    'deliverysegments',
    'outcomesegments',
    'webhookdeliveries',
  ])
})
