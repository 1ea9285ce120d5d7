import { GetParameterCommand, PutParameterCommand } from '@aws-sdk/client-ssm'
import { afterEach, describe, expect, it } from 'vitest'
import { type AwsBed, EXTERNAL_ID, startAwsBed } from '../../../test/support/aws/bed.ts'

let bed: AwsBed
afterEach(() => bed.stop())

const OPERATOR = 'arn:aws:iam::111111111111:user/davit'
const allow = (Action: string | string[], more: Record<string, unknown> = {}) => ({
  Effect: 'Allow',
  Action,
  ...more,
})
const policy = (...Statement: Record<string, unknown>[]) => ({ Version: '2012-10-17', Statement })

describe('a session', () => {
  const put = (name: string) => new PutParameterCommand({ Name: name, Value: 'v', Type: 'String' })
  const within = (prefix: string) =>
    JSON.stringify(
      policy(allow('ssm:*', { Resource: `arn:aws:ssm:*:*:parameter${prefix}/*` }), {
        Effect: 'Deny',
        Action: 'ssm:GetParameter*',
        Resource: '*',
      }),
    )

  it('may do what both the role and its own policy allow', async () => {
    bed = await startAwsBed()
    const ssm = bed.ssm(await bed.assume({ Policy: within('/davit/acme') }))
    await ssm.send(put('/davit/acme/rc_x'))
    await expect(ssm.send(put('/davit/acm/rc_x'))).rejects.toMatchObject({
      name: 'AccessDeniedException',
      message: expect.stringContaining('because no session policy allows the ssm:PutParameter action'),
    })
    await expect(ssm.send(new GetParameterCommand({ Name: '/davit/acme/rc_x' }))).rejects.toMatchObject({
      message: expect.stringContaining('with an explicit deny in a session policy'),
    })
  })

  it('gets nothing by its own policy that the role has not', async () => {
    bed = await startAwsBed({ policy: policy(allow('ssm:DescribeParameters', { Resource: '*' })) })
    const ssm = bed.ssm(await bed.assume({ Policy: within('/davit/acme') }))
    await expect(ssm.send(put('/davit/acme/rc_x'))).rejects.toMatchObject({
      message: expect.stringContaining('because no identity-based policy allows the ssm:PutParameter action'),
    })
  })

  it('is held by its tags where the role says so', async () => {
    const own = `arn:aws:ssm:*:*:parameter/davit/$${'{aws:PrincipalTag/davit.dev/organization}'}/*`
    bed = await startAwsBed({ policy: policy(allow('ssm:PutParameter', { Resource: own })) })
    const ssm = bed.ssm(await bed.assume({ Tags: [{ Key: 'davit.dev/organization', Value: 'acme' }] }))
    await ssm.send(put('/davit/acme/rc_x'))
    await expect(ssm.send(put('/davit/beta/rc_x'))).rejects.toMatchObject({ name: 'AccessDeniedException' })
  })

  it('stands in the log with its policy, tags and external id', async () => {
    bed = await startAwsBed()
    const Policy = within('/davit/acme')
    const ssm = bed.ssm(await bed.assume({ Policy, Tags: [{ Key: 'a', Value: 'b' }] }))
    await ssm.send(put('/davit/acme/rc_x'))
    expect(bed.aws.trail.entries({ operation: 'PutParameter' })).toMatchObject([
      {
        account: '222222222222',
        principal: 'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
        session: {
          policy: Policy,
          tags: { a: 'b' },
          externalId: EXTERNAL_ID,
          caller: OPERATOR,
          name: 'davit-acme',
        },
        parameters: { Name: '/davit/acme/rc_x', Type: 'String' },
      },
    ])
    const [assumed] = bed.aws.trail.entries({ operation: 'AssumeRole' })
    expect(assumed).toMatchObject({
      account: '222222222222',
      principal: OPERATOR,
      parameters: { ExternalId: EXTERNAL_ID, Policy },
    })
  })
})
