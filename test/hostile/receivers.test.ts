/**
 * Receivers that respond as badly as a hostile one may: each costs an attempt of at most 20 seconds, and does not affect others.
 */
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'
import { type HostileReceiver, type HostileReceivers, startHostileReceivers } from './hostile-receivers.ts'

const DEADLINE_MS = 20_000
/** How much longer than its timeout a hanging attempt may take on a busy machine. */
const LATE_MS = 5000
/** How much less than the timer a clock with a resolution of milliseconds may show. */
const CLOCK_MS = 2
/** Memory limit for all of them: some send without end. */
const MAX_HEAP_MB = 64
const LIMIT_MS = 60_000
/** An ended connection is closed on both sides by then. */
const DRAINED_MS = 5000
/** Published one after the other while the first ones hang. */
const GOOD_EVENTS = 50

let hostile: HostileReceivers
let good: Receiver
let davit: TestDavit
let type: string

beforeAll(async () => {
  hostile = await startHostileReceivers()
  good = await startReceiver()
  davit = await startDavit('receivers', { ca: hostile.ca })
  type = await ownEventType(davit)
  await Promise.all(
    hostile.receivers.map(({ url }, i) => davit.endpoint(nameOf(i), { url, eventTypes: [type] })),
  )
})

afterAll(async () => {
  await davit?.stop()
  await hostile?.close()
  await good?.close()
})

const nameOf = (index: number) => `hostile-${index}`

async function firstAttempt(index: number): Promise<WebhookDelivery | undefined> {
  const [delivery] = await davit.deliveriesWhen(
    nameOf(index),
    ([first]) => (first?.status?.attemptCount ?? 0) > 0,
    LIMIT_MS,
  )
  return delivery
}

function wrongIn(receiver: HostileReceiver, delivery: WebhookDelivery | undefined): string | undefined {
  const state = delivery?.status?.state
  const latency = delivery?.status?.attempts?.[0]?.latencyMs ?? -1
  if (state !== (receiver.counts ? 'succeeded' : 'retrying')) return `${receiver.name}: ${state}`
  const least = receiver.hangs ? DEADLINE_MS - CLOCK_MS : 0
  if (latency < least || latency > DEADLINE_MS + LATE_MS) return `${receiver.name}: ${latency} ms`
  return undefined
}

/** The outcome and the time of the next attempt. */
function wordsOf(delivery: WebhookDelivery | undefined): string {
  const { state, attempts, nextAttemptAt } = delivery?.status ?? {}
  const [first] = attempts ?? []
  if (!first) return 'no attempt'
  const ended = Date.parse(first.at) + first.latencyMs
  const next =
    nextAttemptAt === undefined ? '' : `, next after ${seconds(Date.parse(nextAttemptAt) - ended)} s`
  return `${state} in ${first.latencyMs} ms${next}`
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1)
}

test(
  'each ends in 20 seconds with an outcome in words, the others get all meanwhile, and no socket stays',
  async () => {
    await davit.endpoint('good', { url: `${good.url}/good`, eventTypes: ['billing.updated'] })
    const files = openFiles()
    const heap = heapInUse()
    await davit.publish(type, {})
    for (let n = 0; n < GOOD_EVENTS; n += 1) await davit.publish('billing.updated', { n })
    await good.waitFor(GOOD_EVENTS, { path: '/good' })
    const stillHanging = davit.controller.webhooks.engine.stats().inFlight
    const deliveries = await Promise.all(hostile.receivers.map((_, index) => firstAttempt(index)))
    expect(hostile.receivers.flatMap((receiver, i) => wrongIn(receiver, deliveries[i]) ?? [])).toEqual([])
    const closed = hostile.receivers.filter(({ keeps }) => !keeps)
    await Promise.race([Promise.all(closed.map(({ drained }) => drained())), sleep(DRAINED_MS)])
    const leftOpen = closed.filter(({ open }) => open() > 0).map(({ name }) => name)
    const grownMb = Math.round((heapInUse() - heap) / 2 ** 20)
    const latencies = deliveries.map((delivery) => delivery?.status?.attempts?.[0]?.latencyMs ?? 0)
    tellFigures('receivers', {
      'kinds of receivers': hostile.receivers.length,
      'that hang to the deadline': hostile.receivers.filter(({ hangs }) => hangs).length,
      'longest attempt, ms': Math.max(...latencies),
      'good events, all received before those ended': GOOD_EVENTS,
      'attempts that still hung then': stillHanging,
      'heap grown, MB': grownMb,
      'connections left open': leftOpen.length,
      'files over those before': openFiles() - files,
      ...Object.fromEntries(hostile.receivers.map(({ name }, i) => [name, wordsOf(deliveries[i])])),
    })
    expect(stillHanging).toBeGreaterThan(0)
    expect(leftOpen).toEqual([])
    expect(grownMb).toBeLessThan(MAX_HEAP_MB)
    // Each was asked once: data before the complete head is no reason to retry.
    expect(
      hostile.receivers.filter(({ connections }) => connections() === 0).map(({ name }) => name),
    ).toEqual([])
  },
  4 * LIMIT_MS,
)

function openFiles(): number {
  return readdirSync('/proc/self/fd').length
}

function heapInUse(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
