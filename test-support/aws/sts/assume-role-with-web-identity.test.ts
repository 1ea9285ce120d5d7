import { GetParameterCommand } from '@aws-sdk/client-ssm'
import {
  AssumeRoleWithWebIdentityCommand,
  type AssumeRoleWithWebIdentityCommandInput,
} from '@aws-sdk/client-sts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ALLOW_ALL, type AwsBed, startAwsBed } from '../../../test/support/aws/bed.ts'
import {
  addBoxRole,
  type Cluster,
  ISSUER,
  makeCluster,
  subjectOf,
} from '../../../test/support/bake/web-identity.ts'
import type { Role } from '../account.ts'

const SUBJECT = subjectOf('acme', 'box')

let bed: AwsBed
let cluster: Cluster
let role: Role

beforeEach(async () => {
  bed = await startAwsBed()
  cluster = makeCluster()
  role = addBoxRole(bed.organization.account, cluster, { subject: SUBJECT, policy: ALLOW_ALL })
})
afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const token = (claims: Partial<Parameters<Cluster['token']>[0]> = {}) =>
  cluster.token({ sub: SUBJECT, ...claims }, bed.clock.now())

function assume(input: Partial<AssumeRoleWithWebIdentityCommandInput> = {}) {
  // The SDK signs nothing here, so its access key does not exist.
  const sts = bed.sts({ accessKeyId: 'AKIAXXXXXXXXXXXXXXXX', secretAccessKey: 'none' })
  return sts.send(
    new AssumeRoleWithWebIdentityCommand({
      RoleArn: role.arn,
      RoleSessionName: 'box',
      WebIdentityToken: token(),
      ...input,
    }),
  )
}

const seconds = () => Math.floor(bed.clock.now() / 1000)

const TABLE: readonly {
  name: string
  given: () => Partial<AssumeRoleWithWebIdentityCommandInput>
  want: string
}[] = [
  { name: 'a token of the cluster', given: () => ({}), want: 'taken' },
  {
    name: 'a token of another ServiceAccount',
    given: () => ({ WebIdentityToken: token({ sub: subjectOf('acme', 'other') }) }),
    want: 'AccessDenied',
  },
  {
    name: 'a token for another audience',
    given: () => ({ WebIdentityToken: token({ aud: 'davit' }) }),
    want: 'InvalidIdentityTokenException',
  },
  {
    name: 'a token of an issuer that the account does not know',
    given: () => ({ WebIdentityToken: token({ iss: 'https://oidc.other.test' }) }),
    want: 'InvalidIdentityTokenException',
  },
  {
    name: 'a token that has expired',
    given: () => ({ WebIdentityToken: token({ exp: seconds() }) }),
    want: 'ExpiredTokenException',
  },
  {
    name: 'a token of a key that is not in the JWKS',
    given: () => ({ WebIdentityToken: token({ kid: 'other' }) }),
    want: 'InvalidIdentityTokenException',
  },
  {
    name: 'a token that another cluster has signed',
    given: () => ({
      WebIdentityToken: makeCluster().token(
        { sub: SUBJECT, kid: cluster.keys[0]?.kid ?? '' },
        bed.clock.now(),
      ),
    }),
    want: 'InvalidIdentityTokenException',
  },
  {
    name: 'what is no token',
    given: () => ({ WebIdentityToken: 'a.b.c' }),
    want: 'InvalidIdentityTokenException',
  },
  {
    name: 'a role that is not there',
    given: () => ({ RoleArn: role.arn.replace('box', 'other') }),
    want: 'AccessDenied',
  },
  {
    name: 'an account that is not there',
    given: () => ({ RoleArn: role.arn.replace('222222222222', '999999999999') }),
    want: 'AccessDenied',
  },
  { name: 'more than the role has', given: () => ({ DurationSeconds: 7200 }), want: 'ValidationError' },
]

describe('AssumeRoleWithWebIdentity', () => {
  for (const { name, given, want } of TABLE)
    it(`with ${name}: ${want}`, async () => {
      const outcome = await assume(given()).then(
        () => 'taken',
        (error: Error) => error.name,
      )
      expect(outcome).toBe(want)
    })

  it('gives a session that may do what the role may, and says whose it is', async () => {
    const { Credentials, ...rest } = await assume()
    expect(rest).toMatchObject({
      SubjectFromWebIdentityToken: SUBJECT,
      Audience: 'sts.amazonaws.com',
      Provider: `arn:aws:iam::222222222222:oidc-provider/${ISSUER.replace('https://', '')}`,
      AssumedRoleUser: { Arn: 'arn:aws:sts::222222222222:assumed-role/box/box' },
    })
    const ssm = bed.ssm({
      accessKeyId: Credentials?.AccessKeyId ?? '',
      secretAccessKey: Credentials?.SecretAccessKey ?? '',
      sessionToken: Credentials?.SessionToken ?? '',
    })
    await expect(ssm.send(new GetParameterCommand({ Name: '/davit/acme/rc_x' }))).rejects.toMatchObject({
      name: 'ParameterNotFound',
    })
  })

  it('stands in the log without its token', async () => {
    await assume()
    const [entry] = bed.aws.trail.entries({ operation: 'AssumeRoleWithWebIdentity' })
    expect(entry).toMatchObject({ account: '222222222222', parameters: { RoleArn: role.arn } })
    expect(JSON.stringify(entry)).not.toContain('eyJ')
  })

  it('is the only operation that nobody has to sign', async () => {
    const answer = await fetch(bed.aws.url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'Action=GetCallerIdentity&Version=2011-06-15',
    })
    expect(answer.status).toBe(403)
    expect(await answer.text()).toContain('MissingAuthenticationToken')
  })
})
