import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AccountsBed,
  parameter,
  REGION,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import type { Parameter } from '../../../test-support/aws/account.ts'
import { SecretText } from '../../lib/redact.ts'

let bed: AccountsBed

beforeEach(async () => {
  bed = await startAccountsBed()
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const create = (name: string, organization = 'acme') =>
  bed.clock.rush(bed.cloud.create(bed.access(organization), parameter(name)))
const list = (more = {}) =>
  bed.clock.rush(bed.cloud.list(bed.access('acme'), { prefix: '/davit/acme', limit: 200, ...more }))
const tagsOf = (name: string) => bed.clock.rush(bed.cloud.tagsOf(bed.access('acme'), name))
const described = () => bed.aws.trail.entries({ operation: 'DescribeParameters' })

describe('list', () => {
  it('shows what is under the prefix, without values', async () => {
    await create('/davit/acme/rc_one')
    await bed.clock.rush(
      bed.cloud.replace(bed.access('acme'), '/davit/acme/rc_one', new SecretText('rotated')),
    )
    await create('/davit/umbrella/rc_other', 'umbrella')
    expect(await list()).toEqual([
      {
        name: '/davit/acme/rc_one',
        version: 2,
        type: 'SecureString',
        kmsKeyId: 'alias/aws/ssm',
        modifiedAt: expect.closeTo(bed.clock.now(), -4),
        modifiedBy: expect.stringContaining(':assumed-role/davit-writer/davit-acme'),
      },
    ])
  })

  it('reads all pages', async () => {
    const names = Array.from({ length: 120 }, (_, i) => `/davit/acme/rc_${i}`)
    for (const name of names) bed.account.parameters(REGION).put(stored(name), bed.clock.now())
    const listed = await list()
    expect(listed.map(({ name }) => name).sort()).toEqual([...names].sort())
    expect(described().length).toBeGreaterThanOrEqual(3)
  })

  it('shows only what has the tags that are asked for', async () => {
    await create('/davit/acme/rc_one')
    bed.account.parameters(REGION).put(stored('/davit/acme/rc_two'), bed.clock.now())
    const tags = { 'davit.dev/installation': 'here', 'davit.dev/organization-uid': 'uid-acme' }
    expect((await list({ tags })).map(({ name }) => name)).toEqual(['/davit/acme/rc_one'])
    expect(await list({ tags: { ...tags, 'davit.dev/installation': 'elsewhere' } })).toEqual([])
  })

  it('refuses more than it is asked for', async () => {
    for (let i = 0; i < 4; i += 1)
      bed.account.parameters(REGION).put(stored(`/davit/acme/rc_${i}`), bed.clock.now())
    expect(await list({ limit: 4 })).toHaveLength(4)
    expect(await failureOf(list({ limit: 3 }))).toMatchObject({ code: 'TooManyParameters', remedy: 'spec' })
  })

  it('asks again while it does not show what was written a moment ago', async () => {
    const lag = bed.aws.script.lag({ operation: 'ssm:DescribeParameters', ms: 3000 })
    await create('/davit/acme/rc_one')
    const listing = list()
    await Promise.resolve()
    lag.remove()
    expect((await listing).map(({ name }) => name)).toEqual(['/davit/acme/rc_one'])
  })

  it('does so a bounded number of times', async () => {
    bed.aws.script.lag({ operation: 'ssm:DescribeParameters', ms: 600_000 })
    await create('/davit/acme/rc_one')
    expect(await list()).toEqual([])
    expect(described()).toHaveLength(3)
  })

  it('does not do so for what was written a while ago', async () => {
    bed.aws.script.lag({ operation: 'ssm:DescribeParameters', ms: 600_000 })
    await create('/davit/acme/rc_one')
    await bed.clock.elapse(6000)
    expect(await list()).toEqual([])
    expect(described()).toHaveLength(1)
  })
})

describe('tagsOf', () => {
  it('gives the tags of a parameter', async () => {
    await create('/davit/acme/rc_one')
    expect(await tagsOf('/davit/acme/rc_one')).toMatchObject(parameter('').tags)
  })

  it('says when there is none', async () => {
    expect(await failureOf(tagsOf('/davit/acme/rc_none'))).toMatchObject({
      remedy: 'gone',
      code: 'InvalidResourceId',
    })
    expect(bed.counted.codesOf('ssm:ListTagsForResource')).toHaveLength(1)
  })

  it('waits for one that was made a moment ago', async () => {
    await create('/davit/acme/rc_one')
    const effect = { code: 'InvalidResourceId', message: '', status: 400 }
    bed.aws.script.add({ operation: 'ssm:ListTagsForResource', effect, times: 3 })
    expect(await tagsOf('/davit/acme/rc_one')).toMatchObject(parameter('').tags)
  })
})

/** One that was made by somebody else, long before. */
function stored(name: string): Parameter {
  const by = {
    keyId: 'alias/aws/ssm',
    description: undefined,
    modifiedBy: 'arn:aws:iam::222222222222:user/other',
  }
  const version = { version: 1, value: 'value', ciphertext: 'AQICAH', labels: [], modifiedAt: 0, ...by }
  return { name, versions: [{ ...version, type: 'SecureString', tier: 'Standard' }], tags: new Map() }
}
