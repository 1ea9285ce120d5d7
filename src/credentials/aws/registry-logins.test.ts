import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { DeleteParameterCommand, PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CountedCalls } from '../../../test/support/aws/accounts-bed.ts'
import { ALLOW_ALL } from '../../../test/support/aws/bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { addBoxRole, type Cluster, makeCluster, subjectOf } from '../../../test/support/bake/web-identity.ts'
import { fixedRandom } from '../../../test/support/fake-clock.ts'
import { RushingClock } from '../../../test/support/rushing-clock.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import { type AwsEmulator, startAwsEmulator } from '../../../test-support/aws/aws-emulator.ts'
import { createParameterReader } from './registry-logins.ts'

const REGION = 'eu-west-1'
const SUBJECT = subjectOf('acme', 'box')
const NAME = '/davit/acme/rc_ghcr'
const SECRET = 'the-secret-of-ghcr'
const VARIABLES = [
  'AWS_ENDPOINT_URL',
  'AWS_REGION',
  'AWS_ROLE_ARN',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
]

let clock: RushingClock
let aws: AwsEmulator
let account: Account
let role: Role
let cluster: Cluster
let folder: string
let owner: SSMClient
let reader: ReturnType<typeof createParameterReader>
const before = new Map<string, string | undefined>()
const realNow = Date.now

const policy = (...names: string[]) => ({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Action: 'ssm:GetParameter',
      Resource: names.map((name) => `arn:aws:ssm:*:*:parameter${name}`),
    },
    { Effect: 'Allow', Action: 'kms:Decrypt', Resource: '*' },
  ],
})

beforeEach(async () => {
  clock = new RushingClock()
  Date.now = () => clock.now()
  aws = await startAwsEmulator({ clock, rates: {} })
  account = aws.accounts.add('222222222222')
  cluster = makeCluster()
  role = addBoxRole(account, cluster, { subject: SUBJECT, policy: policy('/davit/acme/*') })
  const credentials = account.addAccessKey(account.addUser('owner', { policies: { all: ALLOW_ALL } }))
  owner = new SSMClient({ endpoint: aws.url, region: REGION, credentials, maxAttempts: 1 })
  folder = mkdtempSync(join(tmpdir(), 'davit-identity-'))
  for (const name of VARIABLES) before.set(name, process.env[name])
  for (const name of VARIABLES) delete process.env[name]
  identify(cluster.token({ sub: SUBJECT }, clock.now()))
  reader = createParameterReader({
    clock,
    random: fixedRandom(),
    metrics: new CountedCalls(),
    userAgent: 'davit/test',
  })
})

afterEach(async () => {
  reader.close()
  owner.destroy()
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  Date.now = realNow
  expect(aws.defects).toEqual([])
  await aws.stop()
  rmSync(folder, { recursive: true })
})

function identify(token: string) {
  const file = join(folder, 'token')
  writeFileSync(file, token)
  Object.assign(process.env, {
    AWS_ENDPOINT_URL: aws.url,
    AWS_REGION: REGION,
    AWS_ROLE_ARN: role.arn,
    AWS_WEB_IDENTITY_TOKEN_FILE: file,
  })
}

async function store(value = SECRET, Type: 'SecureString' | 'String' = 'SecureString') {
  await owner.send(new PutParameterCommand({ Name: NAME, Value: value, Type, Overwrite: true }))
}

const read = (version = 1, name = NAME) => clock.rush(reader.read({ name, version, region: REGION }))

describe('a secret', () => {
  it('is read with the identity of the pod, in the version that is asked for', async () => {
    await store()
    await store('another one')
    expect((await read(1)).reveal()).toBe(SECRET)
    expect((await read(2)).reveal()).toBe('another one')
    expect(aws.trail.entries({ operation: 'GetParameter' })[0]).toMatchObject({
      principal: expect.stringMatching(/^arn:aws:sts::222222222222:assumed-role\/box\//),
      parameters: { Name: `${NAME}:1`, WithDecryption: true },
    })
  })

  it('shows nowhere', async () => {
    await store()
    const secret = await read()
    expect(inspect(secret) + JSON.stringify({ secret })).not.toContain(SECRET)
  })

  it('that was written a moment ago is waited for', async () => {
    aws.script.lag({ operation: 'ssm:GetParameter', ms: 8000 })
    await store()
    expect((await read()).reveal()).toBe(SECRET)
  })

  it('of a version that was written a moment ago is waited for', async () => {
    await store()
    await clock.elapse(60_000)
    aws.script.lag({ operation: 'ssm:GetParameter', ms: 8000 })
    await store('another one')
    expect((await read(2)).reveal()).toBe('another one')
  })

  it('that is not there after 10 s is missed', async () => {
    const began = clock.monotonic()
    expect(await failureOf(read())).toMatchObject({
      code: 'ParameterNotFound',
      remedy: 'gone',
      operation: 'ssm:GetParameter',
    })
    expect(clock.monotonic() - began).toBeLessThan(20_000)
  })

  it('whose version is gone is missed', async () => {
    await store()
    expect(await failureOf(read(7))).toMatchObject({ code: 'ParameterVersionNotFound', remedy: 'gone' })
  })

  it('that was deleted is missed', async () => {
    await store()
    await owner.send(new DeleteParameterCommand({ Name: NAME }))
    expect(await failureOf(read())).toMatchObject({ code: 'ParameterNotFound' })
  })

  it('that the role may not read is refused in the words of AWS', async () => {
    await store()
    account.changeRole(role, { policies: { box: policy('/davit/other/*') } })
    expect(await failureOf(read())).toMatchObject({
      code: 'AccessDeniedException',
      remedy: 'permissions',
      message: expect.stringContaining('is not authorized to perform: ssm:GetParameter'),
    })
  })

  it('that is no SecureString is none', async () => {
    await store('plain', 'String')
    expect(await failureOf(read())).toMatchObject({ code: 'UnsupportedParameterType' })
  })

  it('is asked for again when AWS is busy', async () => {
    await store()
    aws.script.add({ operation: 'ssm:GetParameter', effect: 'throttle', times: 2 })
    expect((await read()).reveal()).toBe(SECRET)
  })
})

describe('an identity', () => {
  beforeEach(() => store())

  it.each([
    [
      'of another ServiceAccount',
      () => cluster.token({ sub: subjectOf('acme', 'other') }, clock.now()),
      'AccessDenied',
    ],
    ['that has ended', () => cluster.token({ sub: SUBJECT, exp: 1 }, clock.now()), 'ExpiredTokenException'],
    [
      'of another cluster',
      () => makeCluster().token({ sub: SUBJECT }, clock.now()),
      'InvalidIdentityTokenException',
    ],
  ])('%s is told apart from a refused parameter', async (_name, token, code) => {
    identify(token())
    expect(await failureOf(read())).toMatchObject({ code, operation: 'sts:AssumeRoleWithWebIdentity' })
  })

  it('that is not there is told as such', async () => {
    for (const name of ['AWS_ROLE_ARN', 'AWS_WEB_IDENTITY_TOKEN_FILE']) delete process.env[name]
    process.env.AWS_EC2_METADATA_DISABLED = 'true'
    try {
      expect(await failureOf(read())).toMatchObject({ code: 'NoIdentity' })
    } finally {
      delete process.env.AWS_EC2_METADATA_DISABLED
    }
  })
})
