/** Several controllers: each drives its own shards, and takes those of one that leaves or dies. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodeLogRecords, outcomeSegments, readOutcomeSegment } from '../../src/apis/outcome-segment.ts'
import type { RunningController } from '../../src/cmd/start-controller.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { FaultyApi } from '../support/faulty-api.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const ENDPOINTS = 12

let davit: TestDavit
let receiver: Receiver
let type: string

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('replicas', { env: { DAVIT_LEASE_DURATION: '3s' } })
  type = await ownEventType(davit)
  for (let n = 0; n < ENDPOINTS; n += 1)
    await davit.endpoint(`to-${n}`, {
      url: `${receiver.url}/to-${n}`,
      eventTypes: [type],
      ordered: n % 2 === 0,
    })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function paths(): string[] {
  return Array.from({ length: ENDPOINTS }, (_, n) => `/to-${n}`)
}

/** `data.n` of what a path has received, in that order. */
function numbersAt(path: string): number[] {
  return receiver
    .received(path)
    .map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
}

async function publish(from: number, to: number): Promise<string[]> {
  const names: string[] = []
  for (let n = from; n < to; n += 1) names.push(await davit.publishOnly(type, { n }))
  return names
}

/** Every path has received each number up to there exactly once. */
async function allReceived(to: number, limitMs = 60_000): Promise<void> {
  const wanted = Array.from({ length: to }, (_, n) => n)
  const left = () => paths().filter((path) => new Set(numbersAt(path)).size < to)
  await until(
    async () => left().length === 0 || undefined,
    () => `not all have come: ${JSON.stringify(left().map((path) => [path, numbersAt(path).slice(-3)]))}`,
    limitMs,
  )
  for (const path of paths()) {
    const numbers = numbersAt(path)
    if (Number(path.slice(4)) % 2 === 0) expect(numbers).toEqual(wanted)
    else expect(numbers.toSorted((a, b) => a - b)).toEqual(wanted)
  }
}

async function shared(...controllers: RunningController[]): Promise<void> {
  await until(
    async () =>
      controllers.reduce((sum, { replica }) => sum + replica.ownedShardCount, 0) === SHARD_COUNT || undefined,
    () => `shards: ${controllers.map(({ replica }) => replica.ownedShardCount)}`,
    45_000,
  )
}

test('a second one takes its part, and each event is delivered once, and in order, while shards change hands', async () => {
  const first = publish(0, 30)
  const other = await davit.joinAs('other')
  await other.ready
  await shared(davit.controller, other)
  const names = [...(await first), ...(await publish(30, 60))]
  await allReceived(60)
  expect(other.replica.ownedShardCount).toBeGreaterThan(SHARD_COUNT / 4)
  expect(davit.controller.replica.ownedShardCount).toBeGreaterThan(SHARD_COUNT / 4)
  for (const name of names) await davit.eventWhen(name, ({ status }) => status?.state === 'dispatched')
  const last = publish(60, 90)
  await other.stop()
  await last
  await shared(davit.controller)
  await allReceived(90)
})

test('when one dies, another goes on with what is its own', async () => {
  let api: FaultyApi | undefined
  const mortal = await davit.joinAs('mortal', (inner) => {
    api = new FaultyApi(inner)
    return Object.assign(api, { close: () => inner.close() })
  })
  await mortal.ready
  await shared(davit.controller, mortal)
  await publish(90, 100)
  await allReceived(100)
  mortal.webhooks.engine.stop()
  // What was received and is not recorded would be sent again, as it must be.
  await until(
    async () => {
      const { inFlight, settling } = mortal.webhooks.engine.stats()
      return inFlight + settling + mortal.webhooks.outcomes.oldestMs() === 0 || undefined
    },
    () => 'outcomes are not stored',
  )
  api?.die()
  await publish(100, 110)
  await allReceived(110)
  await shared(davit.controller)
  api?.bury()
  await mortal.stop()
})

test('one that is told to end while nothing is under way says of all its shards that it has handed them over', async () => {
  const other = await davit.joinAs('leaving')
  await other.ready
  await shared(davit.controller, other)
  await publish(110, 111)
  await allReceived(111)
  const own = Array.from({ length: SHARD_COUNT }, (_, shard) => shard).filter((shard) =>
    other.replica.owns(shard),
  )
  const { session } = other.replica
  await until(
    async () =>
      davit.controller.webhooks.engine.counters.total + other.webhooks.engine.counters.total === 0 ||
      undefined,
    () => 'something is pending',
  )
  await other.stop()
  const page = await davit.api.list(outcomeSegments, { namespace: davit.namespace })
  const released = page.items
    .map((raw) => readOutcomeSegment(raw).spec)
    .filter(({ writer }) => writer === session)
    .flatMap((spec) => decodeLogRecords(spec).records)
    .flatMap((record) => (record.kind === 'release' ? record.shards : []))
  expect(new Set(released)).toEqual(new Set(own))
  await shared(davit.controller)
  await publish(111, 112)
  await allReceived(112)
})
