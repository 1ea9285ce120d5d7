import { describe, expect, test } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { MemoryCloud, type Ports } from '../../../test/support/secrets/memory-cloud.ts'
import { type CloudAccess, CloudError } from '../cloud.ts'
import { AccountIdentity } from './identity.ts'
import { probeAccount } from './probe.ts'

const NAME = '/davit/acme/rc__probe'
const ACCOUNT = '111111111111'
const organization = { organization: 'acme', organizationUid: 'u-acme' }

function bed(change: (ports: Ports) => Partial<Ports> = () => ({})) {
  const cloud = new MemoryCloud(new FakeClock())
  const calls: string[] = []
  const ports = cloud.ports((name, run) => {
    calls.push(name)
    return run()
  })
  const accounts = new AccountIdentity(new Uint8Array(32), '/davit')
  const roleArn = `arn:aws:iam::${ACCOUNT}:role/davit`
  const access: CloudAccess = accounts.accessAs(organization, { roleArn, region: 'eu-west-1' })
  cloud.addRole(roleArn, access.externalId)
  const options = { cloud: { ...ports, ...change(ports) }, accounts, prefix: '/davit', random: fixedRandom() }
  const store = cloud.store(ACCOUNT, 'eu-west-1')
  return { cloud, store, calls, accounts, access, probe: () => probeAccount(options, access) }
}

describe('a try of an account', () => {
  test('writes, reads, asks for the role under another id, and leaves nothing', async () => {
    const { probe, store, calls } = bed()
    expect(await probe()).toEqual({
      identify: { value: { account: ACCOUNT, arn: expect.stringContaining('assumed-role/davit') } },
      put: { value: true },
      tags: { value: undefined },
      list: { value: undefined },
      readable: { value: { operations: [], code: 'AccessDeniedException' } },
      otherId: { value: { refused: true, code: 'AccessDenied' } },
      remove: { value: undefined },
    })
    expect(calls).toEqual([
      ...['sts:AssumeRole', 'sts:AssumeRole', 'ssm:Put', 'ssm:ListTags', 'ssm:Describe'],
      ...['ssm:Get', 'ssm:Delete'],
    ])
    expect(store.size).toBe(0)
  })

  test.each([
    ['takes any external ID', async () => ({ refused: false })],
    ['cannot be asked for now', () => Promise.reject(new CloudError('retry', 'ThrottlingException', ''))],
    ['does not answer in time', () => Promise.reject(new CloudError('retry', 'TimedOut', ''))],
    [
      'cannot be asked for',
      () => Promise.reject(new CloudError('permissions', 'RegionDisabledException', '')),
    ],
  ])(
    'writes nothing into the account of a role that %s, and calls nothing there',
    async (_, refusesOtherId) => {
      const { probe, calls, store } = bed(() => ({ refusesOtherId }))
      const results = await probe()
      expect(Object.keys(results)).toEqual(['identify', 'otherId'])
      expect([calls, store.size]).toEqual([['sts:AssumeRole'], 0])
    },
  )

  test('ends where the role is refused', async () => {
    const { probe, cloud, calls } = bed()
    cloud.moods.set(ACCOUNT, 'denied')
    const results = await probe()
    expect([results.identify.failure?.code, results.put, calls]).toEqual([
      'AccessDenied',
      undefined,
      ['sts:AssumeRole'],
    ])
  })

  test('writes nothing into an account that is not that of the role', async () => {
    const { probe, store } = bed(() => ({ identify: async () => ({ account: '999999999999', arn: 'x' }) }))
    expect((await probe()).put).toBeUndefined()
    expect(store.size).toBe(0)
  })

  test('reads nothing where nothing could be written', async () => {
    const { probe, calls } = bed(() => ({
      create: async () => {
        throw new CloudError('permissions', 'AccessDeniedException', 'no')
      },
    }))
    const { put, readable } = await probe()
    expect([put?.failure?.code, readable]).toEqual(['AccessDeniedException', undefined])
    expect(calls).toEqual(['sts:AssumeRole', 'sts:AssumeRole'])
  })

  test('goes on from one that ended half way', async () => {
    const { probe, store, accounts, access } = bed()
    store.set(NAME, { versions: [{ value: 'old', by: '', at: 0 }], tags: accounts.tagsOf(access) })
    expect((await probe()).put).toEqual({ value: true })
    expect(store.size).toBe(0)
  })

  test('does not touch what somebody else has under its name', async () => {
    const { probe, store } = bed()
    store.set(NAME, { versions: [{ value: 'theirs', by: '', at: 0 }], tags: {} })
    expect((await probe()).put?.failure?.code).toBe('ParameterAlreadyExists')
    expect(store.get(NAME)?.versions).toHaveLength(1)
  })

  test('says what it found though it cannot clear away', async () => {
    const { probe, store } = bed(() => ({
      remove: async () => {
        throw new CloudError('retry', 'Throttled', '')
      },
    }))
    expect((await probe()).otherId).toBeDefined()
    expect(store.size).toBe(1)
  })

  test.each([
    ['tags', 'ssm:ListTags'],
    ['list', 'ssm:Describe'],
    ['remove', 'ssm:Delete'],
  ] as const)('tells what it may not do: %s', async (tried, call) => {
    const { probe, cloud } = bed()
    cloud.refused.add(call)
    const results = await probe()
    expect([results[tried]?.failure?.code, results.put?.value, results.otherId?.value?.refused]).toEqual([
      'AccessDeniedException',
      true,
      true,
    ])
  })

  test('does not take a fault of Davit for one of the account', async () => {
    const { probe } = bed(() => ({ readable: () => Promise.reject(new TypeError('a bug')) }))
    await expect(probe()).rejects.toThrow('a bug')
  })
})
