import { generateKeyPairSync, sign } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AccountsBed,
  CountedCalls,
  parameter,
  REGION,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { fixedRandom } from '../../../test/support/fake-clock.ts'
import type { BoxCredential } from '../../apis/box-credentials.ts'
import { SecretText } from '../../lib/redact.ts'
import type { BoxLogins, PodRole } from '../cloud.ts'
import { createBoxLogins } from './registry-logins.ts'

const ISSUER = 'https://oidc.example.com/id/1'
const AUDIENCE = 'sts.amazonaws.com'
const HOUR_SECONDS = 3600
const NAME = '/davit/acme/rc_ghcr'
const READER = {
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Action: ['ssm:GetParameter', 'kms:Decrypt', 'ecr:GetAuthorizationToken'],
      Resource: '*',
    },
  ],
}
const TRUST = {
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Principal: { Federated: 'arn:aws:iam::222222222222:oidc-provider/oidc.example.com/id/1' },
      Action: 'sts:AssumeRoleWithWebIdentity',
      Condition: { StringEquals: { 'oidc.example.com/id/1:sub': 'system:serviceaccount:acme:box' } },
    },
  ],
}

const KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })

let bed: AccountsBed
let logins: BoxLogins

beforeEach(async () => {
  bed = await startAccountsBed()
  const keys = [{ ...KEY.publicKey.export({ format: 'jwk' }), kid: 'one' }]
  bed.account.addIdentityProvider(ISSUER, { audiences: [AUDIENCE], keys })
  bed.account.addRole('box', { trust: TRUST, policies: { reader: READER } })
  logins = createBoxLogins({
    clock: bed.clock,
    random: fixedRandom(),
    metrics: new CountedCalls(),
    userAgent: 'davit/test',
    registryOf: () => ({ account: '222222222222', region: REGION }),
    sessionName: (namespace) => `davit-${namespace}`,
  })
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

function pod(lifeSeconds = HOUR_SECONDS): PodRole {
  const now = Math.floor(bed.clock.now() / 1000)
  const claims = {
    iss: ISSUER,
    aud: [AUDIENCE],
    sub: 'system:serviceaccount:acme:box',
    iat: now,
    exp: now + lifeSeconds,
  }
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'RS256', kid: 'one' })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(signed), KEY.privateKey).toString('base64url')
  const token = new SecretText(`${signed}.${signature}`)
  return { roleArn: 'arn:aws:iam::222222222222:role/box', namespace: 'acme', token }
}

async function stored(): Promise<BoxCredential> {
  const { version } = await bed.clock.rush(
    bed.cloud.create(bed.access('acme'), parameter(NAME, 'the-secret')),
  )
  const pinned = { name: NAME, version, region: REGION }
  return {
    id: 'rc_ghcr',
    type: 'token',
    registry: 'ghcr.io',
    repositories: ['a/b'],
    username: 'bot',
    parameter: pinned,
  }
}

const ECR: BoxCredential = { id: 'rc_ecr', type: 'ecr', registry: 'ecr.example', repositories: ['a'] }

describe("a login with a pod's role", () => {
  it('is read in a session that is named after its organization', async () => {
    const login = await bed.clock.rush(logins.login(await stored(), pod()))
    expect([login.username, login.password.reveal()]).toEqual(['bot', 'the-secret'])
    const [read] = bed.aws.trail.entries({ operation: 'GetParameter' })
    expect(read?.principal).toBe('arn:aws:sts::222222222222:assumed-role/box/davit-acme')
  })

  it('is not waited for where its version has gone: the bake has read it', async () => {
    const credential = await stored()
    if (credential.type !== 'token') throw new Error('it is of another type')
    const parameter = { ...credential.parameter, version: credential.parameter.version + 1 }
    const failure = await failureOf(bed.clock.rush(logins.login({ ...credential, parameter }, pod())))
    expect(failure).toMatchObject({ code: 'ParameterVersionNotFound' })
    expect(bed.aws.trail.entries({ operation: 'GetParameter' })).toHaveLength(1)
  })

  it('is a token of ECR that is the role’s', async () => {
    const { username, password, expiresAt } = await bed.clock.rush(logins.login(ECR, pod()))
    const verdict = bed.aws.verifyEcrPassword({ username, password: password.reveal(), region: REGION })
    expect(verdict).toMatchObject({
      ok: true,
      principal: { arn: expect.stringContaining('role/box/davit-acme') },
    })
    expect(expiresAt).toBeGreaterThan(bed.clock.now())
  })

  it('is refused with the words of STS, and without the token', async () => {
    const { token, ...rest } = pod(-1)
    const failure = await failureOf(bed.clock.rush(logins.login(ECR, { ...rest, token })))
    expect(failure).toMatchObject({
      code: 'ExpiredTokenException',
      operation: 'sts:AssumeRoleWithWebIdentity',
    })
    expect(JSON.stringify(failure) + String(failure)).not.toContain(token.reveal().slice(-40))
  })
})
