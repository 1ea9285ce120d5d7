import { describe, expect, test } from 'vitest'
import {
  A,
  B,
  DENIED,
  locationOf,
  RETRY,
  SECRET,
  SPEC,
  storedWorld,
  world,
} from '../../../test/support/credential-world.ts'
import { nextAction } from './plan.ts'

describe('a deletion', () => {
  test('removes the parameter, and then the finalizer', () => {
    const one = storedWorld({ deletedAt: 1_000_000 })
    one.run()
    expect(one.steps).toEqual(['look', 'remove', 'drop-finalizer', 'nothing'])
  })

  test('waits for a parameter that was written a moment ago and is not shown yet, and not for ever', () => {
    const one = storedWorld({ deletedAt: 1_000_000, writtenAt: 999_000 })
    const shown = one.cloud.get(A)
    one.cloud.delete(A)
    expect(one.run()).toMatchObject({ step: 'wait', until: 1_009_000 })
    one.now = 1_009_000
    if (shown) one.cloud.set(A, shown)
    one.run()
    expect([one.cloud.size, one.gone]).toEqual([0, true])
    for (const writtenAt of [1_059_000, 9_000_000]) {
      const late = storedWorld({ deletedAt: 1_000_000, now: 1_060_000, writtenAt })
      late.cloud.delete(A)
      late.run()
      expect(late.gone).toBe(true)
    }
  })

  test('removes what a process put and did not record', () => {
    const one = world({ secret: SECRET })
    one.run([], 1)
    expect(one.stored).toBeUndefined()
    one.deletedAt = one.now
    one.run()
    expect(one.cloud.size).toBe(0)
    expect(one.gone).toBe(true)
  })

  test('tries again for a minute, and then records an orphan', () => {
    const one = storedWorld({ deletedAt: 1_000_000 })
    const tries: number[] = []
    while (!one.gone && tries.length < 100) {
      const step = one.run([RETRY])
      tries.push(one.now - 1_000_000)
      if (step.step === 'wait') one.now = step.until ?? Number.NaN
    }
    expect(tries).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60].map((seconds) => seconds * 1000))
    expect([...one.failedDeletions]).toEqual([A])
  })

  test.each([DENIED, SPEC])('records an orphan at once where AWS answers $code', (failure) => {
    const one = storedWorld({ deletedAt: 1_000_000 })
    one.run([failure])
    expect(one.steps).toEqual(['look', 'record-failed-deletion', 'drop-finalizer', 'nothing'])
  })

  test('leaves alone what is not ours: an orphan if it was recorded, else nothing of ours', () => {
    const recorded = storedWorld({ deletedAt: 1_000_000 })
    const never = world({ deletedAt: 1_000_000 })
    for (const one of [recorded, never]) {
      one.cloud.set(A, { owner: 'not-ours', value: 'theirs', version: 2 })
      one.run()
      expect(one.gone).toBe(true)
      expect(one.cloud.get(A)?.value).toBe('theirs')
    }
    expect([...recorded.failedDeletions]).toEqual([A])
    expect([...never.failedDeletions]).toEqual([])
  })

  test('needs no settings: the role that wrote it is recorded', () => {
    const one = storedWorld({ deletedAt: 1_000_000, account: { state: 'missing' } })
    one.run()
    expect(one.cloud.size).toBe(0)
  })

  test('prefers the role that holds now', () => {
    const roleArn = 'arn:aws:iam::111111111111:role/new'
    const one = storedWorld({
      deletedAt: 1,
      account: { state: 'ready', location: { ...locationOf(A), roleArn } },
    })
    expect(nextAction(one.facts())).toMatchObject({ step: 'look', at: { roleArn, account: A } })
  })

  test('keeps the recorded role where the account is another one, or fails', () => {
    const roleArn = 'arn:aws:iam::111111111111:role/new'
    for (const account of [
      { state: 'ready', location: { ...locationOf(B), roleArn } },
      { state: 'ready', location: { ...locationOf(A), region: 'us-east-1', roleArn } },
      { state: 'stalled', message: '', location: { ...locationOf(A), roleArn } },
    ] as const) {
      const one = storedWorld({ deletedAt: 1, account })
      const at = { roleArn: locationOf(A).roleArn, account: A, region: 'eu-west-1' }
      expect(nextAction(one.facts())).toMatchObject({ step: 'look', at })
    }
  })

  test('prefers the role that settings told which are being deleted', () => {
    const roleArn = 'arn:aws:iam::111111111111:role/new'
    const account = { state: 'missing', location: { ...locationOf(A), roleArn } } as const
    const one = storedWorld({ deletedAt: 1, account })
    expect(nextAction(one.facts())).toMatchObject({ step: 'look', at: { roleArn } })
  })

  test('looks where settings that are being deleted would have had it, unless it was taken along', () => {
    const account = { state: 'missing', location: locationOf(A) } as const
    const at = { account: A }
    expect(nextAction(world({ deletedAt: 1, account }).facts())).toMatchObject({ step: 'look', at })
    const moved = world({ deletedAt: 1, account, moved: true })
    expect(nextAction(moved.facts())).toMatchObject({ step: 'drop-finalizer' })
    const left = world({ deletedAt: 1, moved: true })
    expect(nextAction(left.facts())).toMatchObject({ step: 'look', at })
  })

  test('of what stored nothing ends at once', () => {
    const one = world({ deletedAt: 1_000_000, account: { state: 'missing' } })
    one.run()
    expect(one.steps).toEqual(['drop-finalizer', 'nothing'])
  })
})
