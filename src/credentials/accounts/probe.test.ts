import { describe, expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import type { SecretsSettings } from '../../apis/secrets-settings.ts'
import type { ConnectionAssessment } from './plan.ts'
import { CheckSchedule } from './probe.ts'

const HOUR = 3_600_000
const QUARTER = 900_000
const READY = { ready: true } as ConnectionAssessment
const FAILED = { ready: false } as ConnectionAssessment
const BOTH = { check: true, list: true }
const CHECK_ONLY = { check: true, list: false }

function bed() {
  const clock = new FakeClock()
  const times = new CheckSchedule({ clock, random: fixedRandom(), checkEveryMs: HOUR, listEveryMs: QUARTER })
  return { clock, times }
}

function settings(
  change: { generation?: number; uid?: string; checkedAt?: number; reason?: string } = {},
): SecretsSettings {
  const { generation = 1, uid = 'u-1', checkedAt } = change
  const reachable = { type: 'Reachable', status: 'True', reason: change.reason ?? 'Connected' }
  const known = { checkedAt: new Date(checkedAt ?? 0).toISOString(), observedGeneration: generation }
  const ready = checkedAt === undefined ? [] : [{ type: 'Ready', status: 'True' }]
  const metadata = { namespace: 'acme', name: 'default', uid, generation, resourceVersion: '1' }
  return {
    metadata,
    spec: {},
    status: { ...known, conditions: [reachable, ...ready] },
  } as unknown as SecretsSettings
}

describe('an account', () => {
  test('is tried and listed at once, and then seldom while all is well', () => {
    const { clock, times } = bed()
    const one = settings()
    expect([times.isCheckDue(one), times.isListingDue(one)]).toEqual([true, true])
    times.checked(one, READY)
    times.listed(one)
    expect([times.isCheckDue(one), times.isListingDue(one)]).toEqual([false, false])
    expect(times.nextMs(one, BOTH)).toBe(QUARTER)
    clock.advance(HOUR)
    expect([times.isCheckDue(one), times.isListingDue(one)]).toEqual([true, true])
  })

  test('is tried soon while something is wrong, and less and less often', () => {
    const { clock, times } = bed()
    const one = settings()
    const waits: (number | undefined)[] = []
    for (let n = 0; n < 9; n += 1) {
      times.checked(one, FAILED)
      const wait = times.nextMs(one, CHECK_ONLY)
      waits.push(wait)
      clock.advance(wait ?? 0)
    }
    expect(waits.map((ms) => (ms ?? 0) / 1000)).toEqual([15, 30, 60, 120, 240, 480, 600, 600, 600])
    times.checked(one, READY)
    times.checked(one, FAILED)
    expect(times.nextMs(one, CHECK_ONLY)).toBe(15_000)
  })

  test('is left alone where there is nothing to try and nothing to list', () => {
    const { times } = bed()
    expect(times.nextMs(settings(), { check: false, list: false })).toBeUndefined()
  })

  test('is not listed again and again because it cannot be listed', () => {
    const { times } = bed()
    const one = settings()
    times.checked(one, FAILED)
    expect(times.nextMs(one, CHECK_ONLY)).toBe(15_000)
  })

  test('is tried at once where its status has no answer', () => {
    const { times } = bed()
    times.checked(settings(), READY)
    expect(times.isCheckDue(settings({ reason: 'NotChecked' }))).toBe(true)
    expect(times.isCheckDue(settings({ reason: 'CloudUnavailable' }))).toBe(false)
    // Its role accepts other external IDs, so nothing else was checked.
    const refused = settings({ reason: 'NotChecked' })
    refused.status?.conditions?.push({
      type: 'ExternalIdEnforced',
      reason: 'OtherExternalIdAccepted',
    } as never)
    expect(times.isCheckDue(refused)).toBe(false)
  })

  test('that was tried by the process before is tried an hour after that', () => {
    const { clock, times } = bed()
    const one = settings({ checkedAt: clock.now() - 600_000 })
    expect(times.isCheckDue(one)).toBe(false)
    clock.advance(HOUR - 600_000)
    expect(times.isCheckDue(one)).toBe(true)
  })

  test('is tried an hour after the start at the latest, whatever the clock of the process before said', () => {
    const { clock, times } = bed()
    const one = settings({ checkedAt: clock.now() + 50 * HOUR })
    expect(times.nextMs(one, CHECK_ONLY)).toBe(HOUR)
  })

  test('is tried when it is due, though somebody sets the clock back', () => {
    const { clock, times } = bed()
    const one = settings()
    times.checked(one, READY)
    clock.setWallBy(-50 * HOUR)
    clock.advance(HOUR)
    expect(times.isCheckDue(one)).toBe(true)
  })

  test('is tried at once when its spec changes, and listed when it was to be', () => {
    const { times } = bed()
    times.checked(settings(), READY)
    times.listed(settings())
    const changed = settings({ generation: 2 })
    expect([times.isCheckDue(changed), times.isListingDue(changed)]).toEqual([true, false])
  })

  test('is another one when its settings were made again, or forgotten', () => {
    const { times } = bed()
    times.checked(settings(), READY)
    times.listed(settings())
    expect(times.isListingDue(settings({ uid: 'u-2' }))).toBe(true)
    times.checked(settings({ uid: 'u-2' }), READY)
    times.forget('acme')
    expect(times.isCheckDue(settings({ uid: 'u-2' }))).toBe(true)
  })
})
