import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { type CloudAccess, CloudError, type ListedParameter, type ParameterListing } from '../cloud.ts'
import { AccountListings } from './garbage.ts'

const ACCESS: CloudAccess = {
  organization: 'acme',
  organizationUid: 'u-acme',
  roleArn: 'arn:aws:iam::111111111111:role/davit',
  region: 'eu-west-1',
  externalId: 'davit-x',
}
const OTHER = { ...ACCESS, region: 'eu-central-1' }

function parameter(name: string): ListedParameter {
  return { name, version: 1, type: 'SecureString', modifiedAt: 0, modifiedBy: '' }
}

function bed() {
  const clock = new FakeClock()
  const asked: { access: CloudAccess; prefix: string }[] = []
  const answers: PromiseWithResolvers<ListedParameter[]>[] = []
  const list: ParameterListing['list'] = (access, { prefix }) => {
    asked.push({ access, prefix })
    const answer = Promise.withResolvers<ListedParameter[]>()
    answers.push(answer)
    return answer.promise
  }
  const cloud = { list } as ParameterListing
  const listings = new AccountListings({ cloud, clock, prefix: '/davit', listEveryMs: 900_000 })
  const told: string[] = []
  listings.listen((organization) => told.push(organization))
  return { clock, listings, asked, answers, told }
}

describe('a listing', () => {
  test('is read once for all who ask at a time, and told of', async () => {
    const { listings, asked, answers, told } = bed()
    const both = [listings.list(ACCESS), listings.list(ACCESS)]
    answers[0]?.resolve([parameter('/davit/acme/rc_one')])
    const [first, second] = await Promise.all(both)
    expect(first).toBe(second)
    expect(asked.map(({ prefix }) => prefix)).toEqual(['/davit/acme'])
    expect([...(first?.parameters.keys() ?? [])]).toEqual(['/davit/acme/rc_one'])
    expect(told).toEqual(['acme'])
  })

  test('is of the time when it was asked for, and not of when it came', async () => {
    const { clock, listings, answers } = bed()
    const at = clock.now()
    const running = listings.list(ACCESS)
    clock.advance(5000)
    answers[0]?.resolve([])
    expect((await running).at).toBe(at)
  })

  test('says nothing of another region or role, or after it was forgotten', async () => {
    const { listings, answers } = bed()
    const running = listings.list(ACCESS)
    answers[0]?.resolve([])
    await running
    expect(listings.lastListing(ACCESS)).toBeDefined()
    expect(listings.lastListing(OTHER)).toBeUndefined()
    expect(listings.lastListing({ ...ACCESS, roleArn: 'another' })).toBeUndefined()
    listings.forget('acme')
    expect(listings.lastListing(ACCESS)).toBeUndefined()
  })

  test('of another region is not the one that is being read', async () => {
    const { listings, asked, answers } = bed()
    const both = [listings.list(ACCESS), listings.list(OTHER)]
    for (const answer of answers) answer.resolve([])
    await Promise.all(both)
    expect(asked.map(({ access }) => access.region)).toEqual(['eu-west-1', 'eu-central-1'])
  })

  test('that fails leaves the one before, and is read anew when it is asked for again', async () => {
    const { listings, asked, answers, told } = bed()
    const first = listings.list(ACCESS)
    answers[0]?.resolve([])
    await first
    const second = listings.list(ACCESS)
    answers[1]?.reject(new CloudError('retry', 'Unreachable', ''))
    await expect(second).rejects.toThrow(CloudError)
    expect(listings.lastListing(ACCESS)).toBe(await first)
    expect(told).toEqual(['acme'])
    void listings.list(ACCESS).catch(() => undefined)
    expect(asked).toHaveLength(3)
    answers[2]?.resolve([])
  })

  test('is stale after twice the time between two, which is told when the next one fails', async () => {
    const { clock, listings, answers, told } = bed()
    const first = listings.list(ACCESS)
    answers[0]?.resolve([])
    const listing = await first
    for (const [ms, isStale] of [
      [1_800_000, false],
      [1, true],
    ] as const) {
      clock.advance(ms)
      expect(listings.isStale(listing)).toBe(isStale)
      const next = listings.list(ACCESS)
      answers.at(-1)?.reject(new CloudError('permissions', 'AccessDeniedException', 'no'))
      await expect(next).rejects.toThrow(CloudError)
    }
    expect(told).toEqual(['acme', 'acme'])
  })

  test('is not waited for any more by who gives it up, and comes for the others', async () => {
    const { listings, answers } = bed()
    const giveUp = new AbortController()
    const left = listings.list(ACCESS, giveUp.signal)
    const stays = listings.list(ACCESS)
    giveUp.abort(new Error('enough'))
    await expect(left).rejects.toThrow('enough')
    await expect(listings.list(ACCESS, giveUp.signal)).rejects.toThrow('enough')
    answers[0]?.resolve([parameter('/davit/acme/rc_one')])
    expect((await stays).parameters.size).toBe(1)
  })
})
