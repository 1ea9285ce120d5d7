import { afterEach, describe, expect, it } from 'vitest'
import {
  type AccountsBed,
  type AccountsBedOptions,
  parameter,
  startAccountsBed,
  WRITER,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'

const PROBE = '/davit/acme/rc__probe'
const READS = ['ssm:GetParameter', 'ssm:GetParameters', 'ssm:GetParameterHistory', 'ssm:GetParametersByPath']

let bed: AccountsBed

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

async function start(options: AccountsBedOptions = {}): Promise<void> {
  bed = await startAccountsBed(options)
}

async function readable(): Promise<string[]> {
  await bed.clock.rush(bed.cloud.create(bed.access('acme'), parameter(PROBE, 'probe')))
  return (await bed.clock.rush(bed.cloud.readable(bed.access('acme'), PROBE))).operations
}

const refusesOtherId = () => bed.clock.rush(bed.cloud.refusesOtherId(bed.access('acme')))

describe('readable', () => {
  it('finds nothing where the role denies all reads', async () => {
    await start()
    expect(await readable()).toEqual([])
    expect(
      bed.aws.trail.entries().filter(({ operation }) => operation.startsWith('GetParameter')),
    ).toHaveLength(4)
  })

  it('finds all ways where the role denies none, though Davit’s own sessions cannot use them', async () => {
    await start({ policy: allow(['ssm:*', 'kms:*']) })
    expect(await readable()).toEqual(READS)
  })

  it.each(READS)('finds %s alone', async (operation) => {
    await start({ policy: { ...WRITER, Statement: [...allow(['kms:*', operation, ...WRITES]).Statement] } })
    expect(await readable()).toEqual([operation])
  })

  it('tells with which code it was refused', async () => {
    await start()
    const tried = await bed.clock.rush(bed.cloud.readable(bed.access('acme'), PROBE))
    expect(tried).toEqual({ operations: [], code: 'AccessDeniedException' })
  })

  it('finds a role that may read what is named as a credential is', async () => {
    const own = 'arn:aws:ssm:eu-central-1:222222222222:parameter/davit/acme/rc_*'
    const Statement = [
      ...allow(['kms:*', ...WRITES]).Statement,
      { Effect: 'Allow', Action: 'ssm:GetParameter', Resource: own },
    ]
    await start({ policy: { ...WRITER, Statement } })
    expect(await readable()).toEqual(['ssm:GetParameter'])
  })

  it('finds a role that could read if only the key let it', async () => {
    await start({ policy: allow(['ssm:*', 'kms:Encrypt']) })
    expect(await readable()).toEqual(READS)
  })

  it('finds a role that could read, though there is nothing to be read', async () => {
    await start({ policy: allow(['ssm:*']) })
    expect(await bed.clock.rush(bed.cloud.readable(bed.access('acme'), PROBE))).toEqual({ operations: READS })
  })

  it('never asks for a value in clear', async () => {
    await start({ policy: allow(['ssm:*', 'kms:*']) })
    await readable()
    const asked = bed.aws.trail.entries().map(({ parameters }) => parameters.WithDecryption ?? false)
    expect(new Set(asked)).toEqual(new Set([false]))
  })

  it('does not take a failure for a refusal', async () => {
    await start()
    bed.aws.script.add({ operation: 'ssm:GetParameters', effect: 'unavailable', times: 20 })
    expect(await failureOf(readable())).toMatchObject({ remedy: 'retry', operation: 'ssm:GetParameters' })
  })
})

describe('refusesOtherId', () => {
  it('is refused by a role that wants the id of the organization', async () => {
    await start()
    expect(await refusesOtherId()).toEqual({ refused: true, code: 'AccessDenied' })
    const [tried] = bed.aws.trail.entries({ operation: 'AssumeRole' })
    expect(tried?.parameters.ExternalId).toMatch(/^davit-/)
    expect(tried?.parameters.ExternalId).not.toBe('davit-acme')
    expect(tried?.parameters).toHaveProperty('Policy')
  })

  it('finds a role that takes anybody', async () => {
    await start({ trust: (operator) => trust(operator, undefined) })
    expect(await refusesOtherId()).toEqual({ refused: false })
  })

  it('finds a role that takes whatever looks like an id of Davit', async () => {
    await start({ trust: (operator) => trust(operator, { StringLike: { 'sts:ExternalId': 'davit-*' } }) })
    expect(await refusesOtherId()).toEqual({ refused: false })
  })

  it('does not take a failure for a refusal', async () => {
    await start()
    bed.aws.script.add({ operation: 'sts:AssumeRole', effect: 'throttle', times: 20 })
    expect(await failureOf(refusesOtherId())).toMatchObject({ remedy: 'retry', operation: 'sts:AssumeRole' })
  })
})

describe('identify', () => {
  it('tells the account and the session', async () => {
    await start()
    expect(await bed.clock.rush(bed.cloud.identify(bed.access('acme')))).toEqual({
      account: '222222222222',
      arn: 'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
    })
  })

  it('asks anew each time', async () => {
    await start()
    await bed.clock.rush(bed.cloud.identify(bed.access('acme')))
    bed.account.removeRole(bed.role)
    const error = await failureOf(bed.clock.rush(bed.cloud.identify(bed.access('acme'))))
    expect(error).toMatchObject({ code: 'AccessDenied', remedy: 'permissions', operation: 'sts:AssumeRole' })
  })

  it('refuses what is no ARN of a role', async () => {
    await start()
    const access = bed.access('acme', { roleArn: 'davit' })
    const work = bed.cloud.create(access, parameter(PROBE))
    expect(await failureOf(work)).toMatchObject({ remedy: 'spec' })
  })
})

const WRITES = ['ssm:PutParameter', 'ssm:AddTagsToResource']

function allow(actions: string[]) {
  return { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: actions, Resource: '*' }] }
}

function trust(operator: string, condition: object | undefined): Record<string, unknown> {
  const Principal = { AWS: operator }
  return {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal, Action: 'sts:AssumeRole', ...(condition && { Condition: condition }) },
      { Effect: 'Allow', Principal, Action: 'sts:TagSession' },
    ],
  }
}
