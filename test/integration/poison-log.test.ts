/**
 * Invalid objects in Davit's own namespace (segments, outcomes, keys; damaged by hand, by another version, or by a restore) block
 * nothing else, while the controller runs and at its start. The API server rejects none of them.
 */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secrets } from '../../src/apis/core-kinds.ts'
import { deliverySegments, encodeEventLine } from '../../src/apis/delivery-segment.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { conditionOf, hasCondition } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('poison-log')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function freshName(): string {
  return sortableName(davit.clock.now(), randomBytes(10))
}

async function segment(spec: Record<string, unknown>, name = freshName()): Promise<string> {
  await davit.api.create(deliverySegments, {
    apiVersion: API_VERSION,
    kind: 'DeliverySegment',
    metadata: { name, namespace: davit.namespace },
    spec: { writtenAt: davit.clock.now(), writer: 'another', ...spec },
  })
  return name
}

async function outcomes(spec: Record<string, unknown>, name = freshName()): Promise<string> {
  await davit.api.create(outcomeSegments, {
    apiVersion: API_VERSION,
    kind: 'OutcomeSegment',
    metadata: { name, namespace: davit.namespace },
    spec: { writtenAt: davit.clock.now(), writer: 'another', lowWater: '1', records: '1/0 moved', ...spec },
  })
  return name
}

function eventLine(type: string, over: { id?: string; namespace?: string; payload?: string } = {}): string {
  return encodeEventLine({
    id: freshName(),
    namespace: davit.organization,
    type,
    payload: '{"good":true}',
    ...over,
  })
}

function logLine(part: string): Promise<string> {
  return until(
    async () => davit.logLines.find((line) => line.includes(part)),
    () => `no line of the log has ${part}`,
  )
}

async function endpoint(
  name: string,
): Promise<{ type: string; line: string; path: string; endpoint: WebhookEndpoint }> {
  const type = await ownEventType(davit)
  const path = `/${name}`
  const made = await davit.endpoint(name, { url: receiver.url + path, eventTypes: [type] })
  return { type, path, endpoint: made.endpoint, line: `0 ${name} ${made.endpoint.metadata.uid}` }
}

/** What is published after it arrives, now and after a restart. */
async function goesOn({ type, path }: { type: string; path: string }): Promise<void> {
  for (const restart of [false, true]) {
    if (restart) await davit.restart()
    const before = receiver.received(path).length
    await davit.publish(type, { restart })
    const requests = await receiver.waitFor(before + 1, { path })
    expect(requests.at(-1)?.body.toString()).toContain(`"restart":${restart}`)
  }
}

describe('a segment of the log', () => {
  const GARBAGE = 'not a line of the log, and long enough to be one of the API server'
  const damaged: { what: string; spec: (type: string, line: string) => Record<string, unknown> }[] = [
    { what: 'of lines that are none', spec: (_, line) => ({ events: [GARBAGE], deliveries: line }) },
    {
      what: 'that was cut off',
      spec: (type, line) => ({ events: [eventLine(type).slice(0, 40)], deliveries: line.slice(0, 20) }),
    },
    {
      what: 'whose deliveries are of no event',
      spec: (type, line) => ({ events: [eventLine(type)], deliveries: `7${line.slice(1)}\n\n0\n{}` }),
    },
    {
      what: 'of an organization that is a path',
      spec: (type, line) => ({ events: [eventLine(type, { namespace: '../../../api' })], deliveries: line }),
    },
    {
      what: 'of an id that is a path',
      spec: (type, line) => ({ events: [eventLine(type, { id: '../webhookendpoints' })], deliveries: line }),
    },
    {
      what: 'that was written in the year 200,000',
      spec: (_, line) => ({ writtenAt: Number.MAX_SAFE_INTEGER, events: [GARBAGE], deliveries: line }),
    },
  ]

  test.for(damaged)('$what is told of, and the rest goes on', async ({ what, spec }) => {
    const good = await endpoint(`damaged-${damaged.findIndex((one) => one.what === what)}`)
    const name = await segment(spec(good.type, good.line))
    await goesOn(good)
    await logLine(name)
    expect(receiver.received(good.path)).toHaveLength(2)
    expect(davit.controller.problems()).toEqual([])
  })

  test('of which one line is damaged is delivered as far as it can be read', async () => {
    const good = await endpoint('half')
    const name = await segment({
      events: [GARBAGE, eventLine(good.type)],
      deliveries: `${good.line}\n1${good.line.slice(1)}`,
    })
    await receiver.waitFor(1, { path: good.path })
    await logLine(name)
  })

  test('under a name that tells no time does not keep the log from being read back', async () => {
    const good = await endpoint('named')
    await segment(
      { events: [eventLine(good.type)], deliveries: good.line },
      `a-name-of-people-${randomBytes(4).toString('hex')}`,
    )
    await receiver.waitFor(1, { path: good.path })
    await goesOn(good)
    expect(receiver.received(good.path)).toHaveLength(3)
  })
})

describe('a segment of outcomes', () => {
  test('of lines that are none, or that a newer version wrote, is told of; its delivery is sent (again)', async () => {
    const good = await endpoint('outcomes')
    await davit.controller.stop()
    const accepted = await segment({ events: [eventLine(good.type)], deliveries: good.line })
    const { metadata } = await davit.api.get(deliverySegments, { namespace: davit.namespace, name: accepted })
    const records = [
      'garbage',
      `${metadata.resourceVersion}/0 postponed {"until":1}`,
      `${metadata.resourceVersion}/0 sent {"at":`,
    ]
    const name = await outcomes({ records: records.join('\n') })
    await davit.startController()
    await receiver.waitFor(1, { path: good.path })
    await logLine(name)
    await goesOn(good)
  })

  test('that says that everything to come has been delivered is not believed', async () => {
    const good = await endpoint('low-water')
    await davit.controller.stop()
    await outcomes({ lowWater: '99999999999999999999' })
    await segment({ events: [eventLine(good.type)], deliveries: good.line })
    await davit.startController()
    await receiver.waitFor(1, { path: good.path })
    await goesOn(good)
  })
})

describe('a Secret of keys', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')

  test.for([
    { what: 'no JSON', keys: '{"endpointUid":' },
    { what: 'keys that are none', keys: '{"endpointUid":"x","keys":[{"secret":"short","createdAt":"now"}]}' },
    { what: 'nothing', keys: '' },
  ])(
    'that has $what: nothing is sent unsigned, its endpoint says so, and goes on once it is mended',
    async ({ what, keys }) => {
      const name = `keys-${what.replaceAll(/[^a-z]+/gi, '-').toLowerCase()}`
      const damaged = await endpoint(name)
      const ref = { namespace: davit.namespace, name: `${davit.organization}.${name}` }
      const { data } = await davit.api.get(secrets, ref)
      await davit.api.patch(secrets, ref, { data: { keys: base64(keys) } })
      await davit.restart()
      const refused = await davit.endpointWhen(name, (seen) =>
        hasCondition(seen, 'Ready', { status: 'False', reason: 'SigningSecretsUnreadable' }),
      )
      expect(conditionOf(refused, 'Stalled')).toMatchObject({
        status: 'True',
        reason: 'SigningSecretsUnreadable',
      })
      await davit.publish(damaged.type, { n: 1 })
      await passBy(davit, receiver)
      expect(receiver.received(damaged.path)).toHaveLength(0)
      expect(davit.logLines.join('\n')).toContain(ref.name)
      await davit.api.patch(secrets, ref, { data: data as Record<string, string> })
      await receiver.waitFor(1, { path: damaged.path })
      await davit.endpointWhen(name, (seen) => hasCondition(seen, 'Ready', { status: 'True' }))
    },
  )

  test('that is damaged and deleted is made anew', async () => {
    const damaged = await endpoint('keys-deleted')
    const ref = { namespace: davit.namespace, name: `${davit.organization}.keys-deleted` }
    await davit.api.patch(secrets, ref, { data: { keys: base64('damaged') } })
    await davit.restart()
    await davit.endpointWhen('keys-deleted', (seen) => hasCondition(seen, 'Ready', { status: 'False' }))
    await davit.api.delete(secrets, ref)
    davit.clock.jump(60_000)
    await davit.endpointWhen('keys-deleted', (seen) => hasCondition(seen, 'Ready', { status: 'True' }))
    await goesOn(damaged)
  })

  test('under a name of no endpoint does not keep others, of endpoints that are gone, from being removed', async () => {
    const file = base64(JSON.stringify({ endpointUid: 'gone', keys: [] }))
    const make = (name: string) =>
      davit.api.create(secrets, {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name, namespace: davit.namespace, labels: { 'davit.dev/signing-keys': 'true' } },
        type: 'davit.dev/signing-keys',
        data: { keys: file },
      })
    await make('a-name-without-a-dot')
    await make('a.b.c')
    const gone = `${davit.organization}.gone`
    await make(gone)
    await davit.restart()
    await until(
      async () => {
        const page = await davit.api.list(secrets, { namespace: davit.namespace })
        return page.items.some(({ metadata }) => metadata.name === gone) ? undefined : true
      },
      () => 'the keys of an endpoint that is gone are still there',
    )
  })
})
