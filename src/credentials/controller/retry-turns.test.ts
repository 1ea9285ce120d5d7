/** Orphans are retried some at a time, in turns by organization: an account that does not answer delays only its own. */
import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import type { FailedDeletionRecord } from '../../apis/registry-credential.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import { sleep } from '../../lib/time.ts'
import { AccountIdentity } from '../accounts/identity.ts'
import { type CloudAccess, CloudError } from '../cloud.ts'
import { FailedDeletionReconciler } from './retry-deletions.ts'

const ACCOUNT = '111111111111'
const SLOW_MS = 30_000

/** What an account answers. */
type Mood = 'gone' | 'denied' | 'throttled' | 'silent'
const ANSWERS: Record<Mood, { remedy: CloudError['remedy']; code: string; ms: number }> = {
  gone: { remedy: 'gone', code: 'InvalidResourceId', ms: 100 },
  denied: { remedy: 'permissions', code: 'AccessDenied', ms: 100 },
  throttled: { remedy: 'retry', code: 'ThrottlingException', ms: 10_000 },
  silent: { remedy: 'retry', code: 'TimedOut', ms: SLOW_MS },
}

function bed(given: [organization: string, records: number, mood: Mood][]) {
  const clock = new FakeClock()
  const moods = new Map(given.map(([organization, , mood]) => [organization, mood]))
  const records = given.flatMap(([organization, count], place) =>
    Array.from({ length: count }, (_, n): FailedDeletionRecord => {
      const name = `/davit/${organization}/rc_${n}`
      const at = { name, account: ACCOUNT, region: 'eu-west-1', roleArn: `arn:aws:iam::${ACCOUNT}:role/a` }
      const recordedAt = new Date(1_000_000 * place + n).toISOString()
      return { ...at, reason: '', organization, organizationUid: `u-${organization}`, recordedAt }
    }),
  )
  const tried: { organization: string; name: string; at: number }[] = []
  const running = new Map<string, number>()
  let most = 0
  let mostOfOne = 0
  const tagsOf = async ({ organization }: CloudAccess, name: string) => {
    tried.push({ organization, name, at: clock.monotonic() })
    running.set(organization, (running.get(organization) ?? 0) + 1)
    most = Math.max(
      most,
      [...running.values()].reduce((sum, one) => sum + one, 0),
    )
    mostOfOne = Math.max(mostOfOne, ...running.values())
    const { remedy, code, ms } = ANSWERS[moods.get(organization) ?? 'denied']
    await sleep(clock, ms)
    running.set(organization, (running.get(organization) ?? 0) - 1)
    throw new CloudError(remedy, code, '')
  }
  const failedDeletions = {
    list: async () => [...records],
    remove: async ({ name }: { name: string }) => {
      records.splice(
        records.findIndex((one) => one.name === name),
        1,
      )
    },
  }
  const quiet = () => undefined
  const context = {
    failedDeletions,
    cloud: { tagsOf },
    resources: { get: () => Promise.reject(new Error('nothing is read')) },
    organizations: { get: () => undefined },
    accounts: new AccountIdentity(new Uint8Array(32), '/davit'),
    mutex: new KeyedMutex(),
    // Names are under another prefix, so no credential has a claim.
    prefix: '/other',
    log: { info: quiet, warn: quiet, error: quiet },
    metrics: { parameterRemoved: quiet },
  }
  const reconciler = new FailedDeletionReconciler(context as never, 900_000)
  const pass = async () => {
    const begin = clock.monotonic()
    tried.length = 0
    let ended = false
    const done = reconciler.reconcile('', new AbortController().signal).finally(() => {
      ended = true
    })
    while (!ended) await clock.elapse(100)
    await done
    return clock.monotonic() - begin
  }
  const counts = () => {
    const by = Map.groupBy(tried, ({ organization }) => organization)
    return Object.fromEntries([...by].map(([organization, { length }]) => [organization, length]))
  }
  return { pass, counts, tried, records, limits: () => ({ most, mostOfOne }) }
}

describe('a pass over orphans', () => {
  test.each([
    ['silent', SLOW_MS],
    ['throttled', 10_000],
  ] as const)('tries one of an account that is %s, and all of the others', async (mood, ms) => {
    const { pass, counts, records } = bed([
      ['loud', 60, mood],
      ['quiet', 3, 'gone'],
      ['calm', 1, 'gone'],
    ])
    expect(await pass()).toBeLessThan(ms + 1000)
    expect(counts()).toEqual({ loud: 1, quiet: 3, calm: 1 })
    expect(records.length).toBe(60)
  })

  test('tries fifty in turns by organization, whichever has the most and the oldest', async () => {
    const { pass, counts } = bed([
      ['loud', 500, 'denied'],
      ['noisy', 400, 'denied'],
      ['quiet', 10, 'denied'],
    ])
    await pass()
    expect(counts()).toEqual({ loud: 20, noisy: 20, quiet: 10 })
  })

  test('ends in time, however many accounts are silent, eight organizations at a time and one record of each', async () => {
    const silent = Array.from({ length: 60 }, (_, n): [string, number, Mood] => [`org-${n}`, 2, 'silent'])
    const { pass, tried, limits } = bed(silent)
    expect(await pass()).toBeLessThan(900_000 / 2)
    expect(tried.length).toBe(50)
    expect(limits()).toEqual({ most: 8, mostOfOne: 1 })
  })

  test('goes on where the last one ended, until each has been tried', async () => {
    const { pass, tried } = bed([
      ['loud', 120, 'denied'],
      ['slow', 4, 'throttled'],
      ['quiet', 2, 'denied'],
    ])
    const seen = new Set<string>()
    for (let n = 0; n < 4; n += 1) {
      await pass()
      for (const { name } of tried) seen.add(name)
    }
    expect(seen.size).toBe(126)
  })

  test('removes the oldest of an organization first', async () => {
    const { pass, tried } = bed([['acme', 5, 'gone']])
    await pass()
    expect(tried.map(({ name }) => name)).toEqual([0, 1, 2, 3, 4].map((n) => `/davit/acme/rc_${n}`))
  })
})
