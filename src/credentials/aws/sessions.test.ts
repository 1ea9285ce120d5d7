import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AccountsBed,
  parameter,
  sessionRules,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'

const MINUTE_MS = 60_000
const ALLOW_ALL = { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }] }

let bed: AccountsBed
let made = 0

beforeEach(async () => {
  bed = await startAccountsBed({ sessionSeconds: 3600 })
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const assumed = () => bed.aws.trail.entries({ operation: 'AssumeRole' })
const puts = () => bed.aws.trail.entries({ operation: 'PutParameter' })

function write(organization = 'acme', more = {}, limits = {}) {
  made += 1
  const name = `/davit/${organization}/rc_${made}`
  return bed.cloud.create(bed.access(organization, more), parameter(name), limits)
}

describe('a session', () => {
  it('is assumed with external id, name, tags and policy, and each call shows them', async () => {
    await bed.clock.rush(write())
    const access = bed.access('acme')
    const { name, policy, tags } = sessionRules(access, 'write')
    expect(assumed()[0]?.parameters).toMatchObject({
      RoleArn: access.roleArn,
      ExternalId: 'davit-acme',
      RoleSessionName: name,
      Policy: policy,
      DurationSeconds: 3600,
    })
    expect(puts()[0]?.session).toMatchObject({ name, policy, tags, externalId: 'davit-acme' })
    expect(puts()[0]?.userAgent).toContain('davit/test')
    expect(assumed()[0]?.userAgent).toContain('davit/test')
  })

  it('is used for all calls of its organization, also for those that come at once', async () => {
    await bed.clock.rush(Promise.all([write(), write(), write()]))
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(1)
  })

  it('is never that of another organization', async () => {
    const organizations = ['acme', 'umbrella', 'acme', 'umbrella']
    await bed.clock.rush(Promise.all(organizations.map((one) => write(one))))
    expect(assumed()).toHaveLength(2)
    for (const { session, parameters } of puts()) {
      const organization = String(parameters.Name).split('/')[2]
      expect(session?.tags['davit.dev/organization']).toBe(organization)
      expect(session?.externalId).toBe(`davit-${organization}`)
    }
  })

  it('is another one after anything changed that it was assumed with', async () => {
    const role = bed.addRole('other')
    const changes = [
      {},
      { organizationUid: 'uid-of-another-acme' },
      { region: 'eu-west-1' },
      { externalId: 'davit-umbrella' },
      { roleArn: role.arn },
    ]
    for (const [i, more] of changes.entries()) {
      await bed.clock.rush(write('acme', more))
      expect(assumed()).toHaveLength(i + 1)
    }
    expect(assumed().map(({ region }) => region)).toContain('eu-west-1')
  })

  it('is another one for another organization, even where the terms do not name it', async () => {
    await bed.stop()
    const terms = { name: 'davit', tags: { same: 'for-all' }, policy: JSON.stringify(ALLOW_ALL) }
    bed = await startAccountsBed({ rules: () => terms })
    await bed.clock.rush(write('acme'))
    await bed.clock.rush(write('acme', { organizationUid: 'uid-of-another-acme' }))
    expect(assumed()).toHaveLength(2)
  })

  it('is renewed beside its use before it ends', async () => {
    await bed.clock.rush(write())
    await bed.clock.elapse(44 * MINUTE_MS)
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(1)
    await bed.clock.elapse(2 * MINUTE_MS)
    await bed.clock.rush(write())
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(2)
    await bed.clock.elapse(40 * MINUTE_MS)
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(2)
    expect(bed.counted.codesOf('ssm:PutParameter').filter((code) => code.startsWith('Expired'))).toEqual([])
  })

  it('goes on while it cannot be renewed yet', async () => {
    await bed.clock.rush(write())
    await bed.clock.elapse(50 * MINUTE_MS)
    bed.aws.script.add({ operation: 'sts:AssumeRole', effect: { code: 'AccessDenied', status: 403 } })
    await bed.clock.rush(write())
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(2)
    await bed.clock.elapse(MINUTE_MS)
    await bed.clock.rush(write())
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(3)
  })

  it('is waited for when the old one has ended', async () => {
    await bed.clock.rush(write())
    await bed.clock.elapse(2 * 60 * MINUTE_MS)
    await bed.clock.rush(write())
    expect(assumed().filter(({ error }) => !error)).toHaveLength(2)
  })

  it.each(['ExpiredTokenException', 'UnrecognizedClientException'])('is dropped on %s', async (code) => {
    await bed.clock.rush(write())
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: { code, status: 400 } })
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(2)
    expect(bed.counted.codesOf('ssm:PutParameter')).toEqual(['ok', code, 'ok'])
  })

  it('is made anew only once in a call', async () => {
    const effect = { code: 'ExpiredTokenException', status: 400 }
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect, times: 10 })
    const error = await failureOf(bed.clock.rush(write()))
    expect(error).toMatchObject({ code: 'ExpiredTokenException', remedy: 'retry' })
    expect(puts()).toHaveLength(2)
  })

  it('makes room when there are too many', async () => {
    await bed.stop()
    bed = await startAccountsBed({ maxSessions: 2 })
    for (const one of ['acme', 'umbrella', 'acme', 'org-1', 'acme', 'umbrella'])
      await bed.clock.rush(write(one))
    expect(assumed().map(({ parameters }) => parameters.ExternalId)).toEqual([
      'davit-acme',
      'davit-umbrella',
      'davit-org-1',
      'davit-umbrella',
    ])
  })
})

describe('a role that is refused', () => {
  it('is asked for once in ten seconds, however many want it', async () => {
    bed.account.removeRole(bed.role)
    const errors = await bed.clock.rush(Promise.all([failureOf(write()), failureOf(write())]))
    for (const error of errors) {
      expect(error).toMatchObject({
        code: 'AccessDenied',
        remedy: 'permissions',
        operation: 'sts:AssumeRole',
      })
      expect(error.unsure).toBe(false)
    }
    await bed.clock.elapse(9000)
    await failureOf(bed.clock.rush(write()))
    expect(assumed()).toHaveLength(1)
    await bed.clock.elapse(1001)
    await failureOf(bed.clock.rush(write()))
    expect(assumed()).toHaveLength(2)
    expect(puts()).toEqual([])
  })

  it('is asked for at once by who wants to know', async () => {
    bed.aws.script.add({ operation: 'sts:AssumeRole', effect: { code: 'AccessDenied', status: 403 } })
    await failureOf(bed.clock.rush(write()))
    const { account, arn } = await bed.clock.rush(bed.cloud.identify(bed.access('acme')))
    expect([account, arn]).toEqual(['222222222222', expect.stringContaining(':assumed-role/davit-writer/')])
    await bed.clock.rush(write())
    expect(assumed()).toHaveLength(2)
  })
})

describe('STS that fails', () => {
  it.each(['throttle', 'unavailable', 'cut-before', 'cut-after'] as const)(
    'is asked again after %s',
    async (effect) => {
      bed.aws.script.add({ operation: 'sts:AssumeRole', effect, times: 2 })
      await bed.clock.rush(write())
      expect(bed.counted.retries.filter(([operation]) => operation === 'sts:AssumeRole')).toHaveLength(2)
    },
  )

  it('keeps nobody waiting who has given up', async () => {
    bed.aws.script.add({ operation: 'sts:AssumeRole', effect: { latencyMs: 4000 } })
    const leaving = new AbortController()
    const work = failureOf(write('acme', {}, { signal: leaving.signal }))
    await bed.clock.elapse(10)
    leaving.abort()
    expect(await work).toMatchObject({ code: 'Canceled', remedy: 'retry', unsure: false })
  })

  it('is told apart from having no identity at all', async () => {
    delete process.env.AWS_ACCESS_KEY_ID
    delete process.env.AWS_SECRET_ACCESS_KEY
    process.env.AWS_EC2_METADATA_DISABLED = 'true'
    const error = await failureOf(bed.clock.rush(write()))
    delete process.env.AWS_EC2_METADATA_DISABLED
    expect(error).toMatchObject({ code: 'NoIdentity', remedy: 'retry' })
  })
})

describe('the identity of this process', () => {
  it('is looked for anew when AWS does not know it any more', async () => {
    await bed.clock.rush(write())
    const [old = ''] = [process.env.AWS_ACCESS_KEY_ID]
    bed.newOperatorKey()
    bed.aws.accounts.keys.removeUserKey(old)
    await bed.clock.rush(write('umbrella'))
    expect(assumed().at(-1)?.error).toBeUndefined()
  })
})

describe('the clock of a machine that is wrong', () => {
  it('is set right by the first answer, and stays so for later sessions', async () => {
    bed.machine.aheadMs = 3 * 60 * MINUTE_MS
    await bed.clock.rush(write())
    await bed.clock.rush(write('umbrella'))
    expect(bed.counted.retries).toHaveLength(1)
  })
})

describe('what an adapter shows of itself', () => {
  it('has no credentials in it', async () => {
    await bed.clock.rush(write())
    const shown = inspect(bed.cloud, { depth: Number.POSITIVE_INFINITY, showHidden: true })
    expect(shown).not.toContain(process.env.AWS_SECRET_ACCESS_KEY)
    expect(shown).not.toMatch(/ASIA|AKIA/)
  })
})
