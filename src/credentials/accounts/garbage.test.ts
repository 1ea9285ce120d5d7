import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { MemoryCloud, type Ports } from '../../../test/support/secrets/memory-cloud.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import { CloudError } from '../cloud.ts'
import { collectGarbage, type Sweep } from './garbage.ts'
import { AccountIdentity } from './identity.ts'

const ACCOUNT = '111111111111'
const MINUTE = 60_000

function bed(change: (ports: Ports) => Partial<Ports> = () => ({})) {
  const clock = new FakeClock()
  const cloud = new MemoryCloud(clock)
  const ports = cloud.ports((_, run) => run())
  const accounts = new AccountIdentity(new Uint8Array(32), '/davit')
  const of = { organization: 'acme', organizationUid: 'u-acme' }
  const roleArn = `arn:aws:iam::${ACCOUNT}:role/davit`
  const access = accounts.accessAs(of, { roleArn, region: 'eu-west-1' })
  cloud.addRole(roleArn, access.externalId)
  const store = cloud.store(ACCOUNT, 'eu-west-1')
  const ours = accounts.tagsOf(access)
  const put = (name: string, tags: Readonly<Record<string, string>> = ours, ageMs = 20 * MINUTE) =>
    store.set(name, { versions: [{ value: '', by: '', at: clock.now() - ageMs }], tags })
  const mutex = new KeyedMutex()
  const exists = new Set<string>()
  const failed: string[] = []
  const counted: string[] = []
  const nothing = () => undefined
  const options = {
    cloud: { ...ports, ...change(ports) },
    accounts,
    prefix: '/davit',
    metrics: { parameterRemoved: (outcome: string) => void counted.push(outcome) },
    log: { info: nothing, warn: nothing, error: nothing },
    exclusively: <T>(organization: string, credential: string, act: () => Promise<T>) =>
      mutex.run(`${organization}/${credential}`, act),
  }
  const sweep = async (more: Partial<Sweep> = {}) => {
    const listed = await ports.list(access, { prefix: '/davit/acme', limit: 5000 })
    const parameters = new Map(listed.map((one) => [one.name, one]))
    const listing = { at: clock.now(), region: access.region, roleArn, parameters }
    return await collectGarbage(options, access, listing, {
      isReferenced: async (_, credential) => exists.has(credential),
      minAgeMs: 10 * MINUTE,
      startAt: 0,
      max: 200,
      limits: {},
      failed: async ({ name }, error) => void failed.push(`${name} ${error.code}`),
      ...more,
    })
  }
  return { cloud, store, put, ours, exists, failed, counted, mutex, sweep }
}

describe('a sweep', () => {
  test('removes what no resource speaks of, and nothing that is young or somebody else’s', async () => {
    const { put, ours, exists, sweep, store, counted } = bed()
    exists.add('kept')
    put('/davit/acme/rc_kept')
    put('/davit/acme/rc_stray')
    put('/davit/acme/rc_young', ours, 9 * MINUTE)
    put('/davit/acme/rc_untagged', {})
    put('/davit/acme/rc_of-before', { ...ours, 'davit.dev/organization-uid': 'u-before' })
    put('/davit/acme/rc_of-another', { ...ours, 'davit.dev/installation': 'another' })
    put('/davit/acme/something', ours)
    put('/davit/acme/rc_deep/er', ours)
    put('/davit/acme/rc__probe')
    expect(await sweep()).toBe(2)
    expect(counted).toEqual(['deleted', 'deleted'])
    expect([...store.keys()].map((name) => name.slice(12))).toEqual([
      'rc_kept',
      'rc_young',
      'rc_untagged',
      'rc_of-before',
      'rc_of-another',
      'something',
      'rc_deep/er',
    ])
  })

  test('looks again once it may: a resource may have come meanwhile', async () => {
    const { put, exists, mutex, sweep, store } = bed()
    put('/davit/acme/rc_late')
    const busy = Promise.withResolvers<void>()
    void mutex.run('acme/late', () => busy.promise)
    const swept = sweep()
    exists.add('late')
    busy.resolve()
    expect(await swept).toBe(0)
    expect(store.size).toBe(1)
  })

  test('goes on behind one that cannot be removed', async () => {
    const { put, sweep, failed, store } = bed(({ remove }) => ({
      remove: (access, name) =>
        name.endsWith('first')
          ? Promise.reject(new CloudError('permissions', 'AccessDenied', ''))
          : remove(access, name),
    }))
    put('/davit/acme/rc_first')
    put('/davit/acme/rc_second')
    expect(await sweep()).toBe(1)
    expect(failed).toEqual(['/davit/acme/rc_first AccessDenied'])
    expect(store.size).toBe(1)
  })

  test('ends where that is asked for', async () => {
    const { put, sweep, store, cloud } = bed()
    put('/davit/acme/rc_first')
    put('/davit/acme/rc_second')
    const failing = sweep({ failed: (_, error) => Promise.reject(error) })
    cloud.moods.set(ACCOUNT, 'unreachable')
    await expect(failing).rejects.toThrow(CloudError)
    expect(store.size).toBe(2)
  })

  test('does not mind what went meanwhile', async () => {
    const { put, sweep, store, failed } = bed()
    put('/davit/acme/rc_gone')
    const isSpokenOf = async () => {
      store.clear()
      return false
    }
    expect(await sweep({ isReferenced: isSpokenOf })).toBe(0)
    expect(failed).toEqual([])
  })

  test('comes to all in time, though many stay that it may not remove', async () => {
    const { put, sweep, store } = bed()
    for (let n = 0; n < 10; n += 1) put(`/davit/acme/rc_theirs-${n}`, {})
    put('/davit/acme/rc_stray')
    expect(await sweep({ max: 4 })).toBe(0)
    expect(await sweep({ max: 4, startAt: 0.75 })).toBe(1)
    expect(store.size).toBe(10)
  })
})
