/** Every alert fires once because of a real fault of real processes, as a real Prometheus sees it; while all is well, none does. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../support/until.ts'
import { allAlerts, readAlerts } from '../alert-rules.ts'
import { type MonitoringBed, startBed } from '../bed/bed.ts'
import type { Fault } from './fault.ts'
import { everydayTraffic, FAULTS } from './faults.ts'
import { shortened } from './short-rules.ts'

const FIRING_LIMIT_MS = 90_000
const QUIET_LIMIT_MS = 40_000
/** As long as ranges and waits of all rules together. */
const WELL_MS = 14_000

let bed: MonitoringBed
const traffic = new AbortController()
let flowing: Promise<void> = Promise.resolve()

beforeAll(async () => {
  bed = await startBed(shortened(readAlerts()))
  flowing = everydayTraffic(bed, traffic.signal)
})

afterAll(async () => {
  traffic.abort()
  await flowing
  await bed?.stop()
})

/** The fault before may have raised some of them, too; they end as soon as its effects do. */
async function untilNoneFires(alerts: readonly string[]): Promise<void> {
  let firing: string[] = []
  const look = async () => {
    const all = await bed.prometheus.firing()
    firing = alerts.filter((alert) => all.has(alert))
    if (firing.length === 0) return true
    await sleep(200)
    return undefined
  }
  await until(look, () => `fires before its cause: ${firing.join(', ')}`, QUIET_LIMIT_MS)
}

test('there is a fault for each alert, and for each once', () => {
  const named = FAULTS.flatMap(({ alerts }) => alerts)
  expect(named.toSorted()).toEqual(
    allAlerts()
      .map(({ alert }) => alert)
      .toSorted(),
  )
})

test('while all is well none fires', async () => {
  const seen = new Set<string>()
  const end = performance.now() + WELL_MS
  while (performance.now() < end) {
    for (const alert of await bed.prometheus.firing()) seen.add(alert)
    await sleep(500)
  }
  expect([...seen]).toEqual([])
  expect(bed.receiver.received('/well').length).toBeGreaterThan(10)
})

describe('fires', () => {
  test.each(FAULTS.map((fault): [string, Fault] => [`${fault.alerts.join(', ')}: ${fault.what}`, fault]))(
    '%s',
    async (_, { alerts, cause, goOn, mend }) => {
      await untilNoneFires(alerts)
      const fired = new Set<string>()
      await cause(bed)
      const look = async () => {
        for (const alert of await bed.prometheus.firing()) fired.add(alert)
        if (alerts.every((alert) => fired.has(alert))) return true
        await goOn?.(bed)
        await sleep(200)
        return undefined
      }
      const missing = () => alerts.filter((alert) => !fired.has(alert)).join(', ')
      await until(look, () => `not fired: ${missing()}`, FIRING_LIMIT_MS)
      await mend?.(bed)
    },
  )
})
