import { DeleteParameterCommand, GetParameterCommand, PutParameterCommand } from '@aws-sdk/client-ssm'
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts'
import { afterEach, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, startAwsBed } from '../../test/support/aws/bed.ts'

let bed: AwsBed
afterEach(() => bed.stop())

describe('the double of AWS', () => {
  it('lets the operator assume a role and keep a secret in the account', async () => {
    bed = await startAwsBed()
    const session = await bed.assume()
    const ssm = bed.ssm(session)
    expect(await bed.sts(session).send(new GetCallerIdentityCommand({}))).toMatchObject({
      Arn: 'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
      Account: '222222222222',
    })
    const put = new PutParameterCommand({ Name: '/davit/acme/rc_x', Value: 'hunter2', Type: 'SecureString' })
    expect(await ssm.send(put)).toMatchObject({ Version: 1, Tier: 'Standard' })
    const get = new GetParameterCommand({ Name: '/davit/acme/rc_x', WithDecryption: true })
    expect((await ssm.send(get)).Parameter).toMatchObject({
      Value: 'hunter2',
      Type: 'SecureString',
      Version: 1,
    })
    await ssm.send(new DeleteParameterCommand({ Name: '/davit/acme/rc_x' }))
    await expect(ssm.send(get)).rejects.toMatchObject({ name: 'ParameterNotFound' })
    expect(bed.aws.trail.entries().map(({ operation, error }) => [operation, error?.code])).toEqual([
      ['AssumeRole', undefined],
      ['GetCallerIdentity', undefined],
      ['PutParameter', undefined],
      ['GetParameter', undefined],
      ['DeleteParameter', undefined],
      ['GetParameter', 'ParameterNotFound'],
    ])
    expect(Buffer.concat(bed.aws.received.all()).includes('hunter2')).toBe(false)
    expect(bed.aws.defects).toEqual([])
  })

  it('is known by its refusal of a wrong external id', async () => {
    bed = await startAwsBed()
    await expect(bed.assume({ ExternalId: 'davit-other' })).rejects.toMatchObject({
      name: 'AccessDenied',
      $metadata: { httpStatusCode: 403 },
    })
  })

  it('tells its time to clients that have another', async () => {
    bed = await startAwsBed()
    const { aws, operator } = bed
    const sts = new STSClient({
      endpoint: aws.url,
      region: REGION,
      credentials: operator.credentials,
      maxAttempts: 2,
    })
    const calls = () => aws.trail.entries().map(({ error }) => error?.code)
    await sts.send(new GetCallerIdentityCommand({}))
    expect(calls()).toEqual(['SignatureDoesNotMatch', undefined])
    await sts.send(new GetCallerIdentityCommand({}))
    expect(calls()).toEqual(['SignatureDoesNotMatch', undefined, undefined])
    sts.destroy()
  })
})
