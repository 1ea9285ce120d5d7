import { afterEach, expect, it } from 'vitest'
import {
  type AccountsBed,
  ORGANIZATIONS,
  parameter,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'

const PUTS = 1000
const PER_SECOND = 3

let bed: AccountsBed

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

type Put = { organization: string; number: number; endedAt: number }

/** All at once, the large organizations first: who asks for more must not be served before who asks for less. */
async function putAll(shares: Map<string, number>): Promise<Put[]> {
  const begin = bed.clock.monotonic()
  const limits = { turnMs: 3_600_000, deadlineMs: 120_000 }
  const works: Promise<Put>[] = []
  for (const [organization, count] of shares) {
    for (let number = 1; number <= count; number += 1) {
      const name = `/davit/${organization}/rc_${number}`
      const put = bed.cloud.create(bed.access(organization), parameter(name), limits)
      works.push(put.then(() => ({ organization, number, endedAt: bed.clock.monotonic() - begin })))
    }
  }
  return await bed.clock.rush(Promise.all(works))
}

/** The n-th put of an organization is due when each that wants so many has had n. */
function fairEndMs(shares: Map<string, number>, number: number): number {
  let before = 0
  for (const count of shares.values()) before += Math.min(count, number)
  return (before / PER_SECOND) * 1000
}

function unfairOf(shares: Map<string, number>, puts: Put[]): string[] {
  const roundMs = (shares.size / PER_SECOND) * 1000
  return puts
    .filter(({ number, endedAt }) => endedAt > fairEndMs(shares, number) * 1.5 + roundMs)
    .map(({ organization, number, endedAt }) => `${organization} ${number} at ${endedAt}`)
}

function endOf(puts: Put[], wanted: number): number {
  return puts.find(({ number }) => number === wanted)?.endedAt ?? Number.NaN
}

const organizations = ORGANIZATIONS.slice(0, 50)
const EQUAL = new Map(organizations.map((name) => [name, PUTS / 50]))
const UNEQUAL = new Map(organizations.map((name, i) => [name, i === 0 ? PUTS - 49 * 5 : 5]))

it.each([
  ['of equal organizations', EQUAL],
  ['of one organization that has most', UNEQUAL],
])(
  'stores a thousand puts %s at three in a second, fairly and with few retries',
  async (_, shares) => {
    const rate = { perSecond: PER_SECOND, burst: PER_SECOND }
    bed = await startAccountsBed({ rates: { puts: rate }, writes: { ...rate, burst: 1 } })
    const puts = await putAll(shares)
    expect(puts).toHaveLength(PUTS)
    expect(bed.account.parameters('eu-central-1').list()).toHaveLength(PUTS)
    const retries = bed.counted.retries.filter(([operation]) => operation === 'ssm:PutParameter')
    expect(retries.length / PUTS).toBeLessThanOrEqual(0.2)
    expect(unfairOf(shares, puts)).toEqual([])
  },
  120_000,
)

it('stores what was throttled before what its organization has not asked for yet', async () => {
  bed = await startAccountsBed({ writes: { perSecond: PER_SECOND, burst: 1 } })
  const effect = { code: 'ThrottlingException', message: 'Rate exceeded', status: 400 }
  bed.aws.script.add({ operation: 'ssm:PutParameter', effect, times: 1 })
  const puts = await putAll(new Map([['acme', 20]]))
  const before = puts.filter(({ endedAt }) => endedAt < endOf(puts, 1))
  expect(bed.counted.retries).toHaveLength(1)
  expect(before.length).toBeLessThanOrEqual(5)
}, 120_000)

it('adapts when the account allows less than was set', async () => {
  const organization = 'acme'
  bed = await startAccountsBed({
    rates: { puts: { perSecond: 1, burst: 1 } },
    writes: { perSecond: PER_SECOND, burst: 1 },
  })
  const puts = await putAll(new Map([[organization, 200]]))
  expect(puts).toHaveLength(200)
  expect(bed.counted.retries.length / 200).toBeLessThanOrEqual(0.2)
}, 120_000)
