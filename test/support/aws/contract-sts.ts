import { GetParameterCommand } from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, GetCallerIdentityCommand } from '@aws-sdk/client-sts'
import { expect } from 'vitest'
import { EXTERNAL_ID } from './bed.ts'
import { type ContractCase, ROLE_ARN } from './contract.ts'

const NARROW = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: 'ssm:PutParameter', Resource: '*' }],
}

export const STS_CASES: readonly ContractCase[] = [
  {
    name: 'gives out a session of a role',
    async run(bed) {
      const answer = await bed.sts().send(
        new AssumeRoleCommand({
          RoleArn: ROLE_ARN,
          RoleSessionName: 'davit-acme',
          ExternalId: EXTERNAL_ID,
          DurationSeconds: 900,
          Tags: [{ Key: 'davit.dev/organization', Value: 'acme' }],
        }),
      )
      expect(answer.AssumedRoleUser?.Arn).toBe(
        'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
      )
      expect(answer.Credentials?.AccessKeyId).toMatch(/^ASIA/)
      const lasts = (answer.Credentials?.Expiration?.getTime() ?? 0) - bed.target.now()
      expect(Math.abs(lasts - 900_000)).toBeLessThan(10_000)
    },
  },
  {
    name: 'says who a session is',
    async run(bed) {
      const session = await bed.assume()
      expect(await bed.sts(session).send(new GetCallerIdentityCommand({}))).toMatchObject({
        Account: '222222222222',
        Arn: 'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
      })
    },
  },
  {
    name: 'refuses a wrong external id',
    async run(bed) {
      await expect(bed.assume({ ExternalId: 'davit-other' })).rejects.toMatchObject({ name: 'AccessDenied' })
    },
  },
  {
    name: 'refuses a role that is not there',
    async run(bed) {
      await expect(bed.assume({ RoleArn: `${ROLE_ARN}-not` })).rejects.toMatchObject({ name: 'AccessDenied' })
    },
  },
  {
    name: 'refuses a session name with a space',
    async run(bed) {
      await expect(bed.assume({ RoleSessionName: 'davit acme' })).rejects.toMatchObject({
        name: 'ValidationError',
      })
    },
  },
  {
    name: 'refuses a session policy of more than 2,048 characters',
    async run(bed) {
      const policy = JSON.stringify(NARROW)
      await expect(bed.assume({ Policy: policy + ' '.repeat(2_049 - policy.length) })).rejects.toMatchObject({
        name: 'ValidationError',
      })
    },
  },
  {
    name: 'holds a session to its session policy',
    async run(bed) {
      const ssm = await bed.ssm({ session: { Policy: JSON.stringify(NARROW) } })
      await expect(ssm.send(new GetParameterCommand({ Name: bed.name('x') }))).rejects.toMatchObject({
        name: 'AccessDeniedException',
      })
    },
  },
  {
    name: 'refuses a signature by another secret',
    async run(bed) {
      const session = await bed.assume()
      const forged = bed.sts({ ...session, secretAccessKey: 'x'.repeat(40) })
      await expect(forged.send(new GetCallerIdentityCommand({}))).rejects.toMatchObject({
        name: 'SignatureDoesNotMatch',
      })
    },
  },
]
