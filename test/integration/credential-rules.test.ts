/**
 * Rules of credentials and accounts with a real API server and an AWS emulator (interface §2.1, §2.6, §4.1; settled,
 * "Credentials").
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import {
  type Account,
  DEFAULT_KEY,
  type ParameterVersion,
  type Role,
} from '../../test-support/aws/account.ts'
import { REGION } from '../support/aws/organization-account.ts'
import { isReady, reasonOf, SecretsBed } from '../support/secrets-bed.ts'
import { until } from '../support/until.ts'

const OTHER_ACCOUNT = '333333333333'
const SOMEBODY = 'arn:aws:iam::222222222222:user/somebody'
const LISTED_EVERY_MS = 1_100_000
/** A rejected call is retried within this time. */
const AGAIN_MS = 4_000_000

let bed: SecretsBed
let account: Account
let role: Role

beforeAll(async () => {
  bed = await SecretsBed.start('credential-rules')
  ;({ account, role } = await bed.connect())
})

afterAll(async () => {
  await bed?.stop()
})

const nameOf = (credential: string) => `/davit/${bed.organization}/rc_${credential}`
const store = () => account.parameters(REGION)

async function stored(name: string): Promise<void> {
  await bed.handOver(`${name}-secret`, `value-of-${name}`)
  await bed.credential(name, { secretRef: { name: `${name}-secret` } })
  await bed.credentialWhen(name, isReady)
}

/** As an administrator of the account does. */
function byHand(name: string, value: string): void {
  const held = store().get(name)
  const version: ParameterVersion = {
    version: (held?.versions.length ?? 0) + 1,
    type: 'SecureString',
    value,
    ciphertext: 'of-no-matter',
    keyId: held?.versions.at(-1)?.keyId,
    description: undefined,
    tier: 'Standard',
    labels: [],
    modifiedAt: Date.now(),
    modifiedBy: SOMEBODY,
  }
  const tags = held?.tags ?? new Map<string, string>()
  store().put({ name, versions: [...(held?.versions ?? []), version], tags }, Date.now())
}

type Pasted = { Version: string; Statement: Record<string, unknown>[] }

async function settingsRole(): Promise<{ trust: never; writer: Pasted }> {
  const { status } = await bed.settingsWhen(() => true)
  return {
    trust: JSON.parse(status?.trustPolicy ?? '') as never,
    writer: JSON.parse(status?.writerPolicy ?? '') as Pasted,
  }
}

describe('a secret', () => {
  test('that a login would mangle is refused with the reason, and no part of it is shown', async () => {
    await bed.handOver('broken', 'first-line\nsecond-line')
    await bed.credential('broken', { secretRef: { name: 'broken' } })
    const refused = await bed.credentialWhen('broken', (seen) => reasonOf(seen, 'Ready') === 'InvalidSecret')
    expect(JSON.stringify(refused)).not.toMatch(/first-line|second-line/)
    expect(await bed.hasSecret('broken')).toBe(true)
    expect(store().get(nameOf('broken'))).toBeUndefined()
  })

  test('is not put over what somebody else has under the name', async () => {
    byHand(nameOf('taken'), 'theirs')
    await bed.handOver('taken', 'ours')
    await bed.credential('taken', { secretRef: { name: 'taken' } })
    await bed.credentialWhen('taken', (seen) => reasonOf(seen, 'Ready') === 'ParameterNotOwned')
    expect(store().value(nameOf('taken'))).toBe('theirs')
    await bed.davit.api.delete(registryCredentials, { namespace: bed.organization, name: 'taken' })
    await bed.gone('taken')
    expect(store().value(nameOf('taken'))).toBe('theirs')
  })
})

describe('that AWS does not take yet', () => {
  const key = () => account.keys(REGION).find(DEFAULT_KEY)
  const refuse = (code: string) =>
    bed.aws.emulator.script.add({
      operation: 'ssm:PutParameter',
      effect: { code, status: 400 },
      times: Infinity,
    })

  test.each([
    {
      what: 'its key is disabled',
      code: 'InvalidKeyId',
      reason: 'AccessDenied',
      begin: () => Object.assign(key() ?? {}, { state: 'Disabled' }),
      end: () => Object.assign(key() ?? {}, { state: 'Enabled' }),
    },
    {
      what: 'it is written too often',
      code: 'TooManyUpdates',
      reason: 'CloudUnavailable',
      begin: () => refuse('TooManyUpdates'),
      end: () => bed.aws.emulator.script.clear(),
    },
    {
      what: 'all is throttled',
      code: 'ThrottlingException',
      reason: 'CloudUnavailable',
      begin: () => refuse('ThrottlingException'),
      end: () => bed.aws.emulator.script.clear(),
    },
  ])(
    'is stored once it does, and it is said meanwhile what AWS says: $what',
    async ({ code, reason, begin, end }) => {
      const name = `later-${code.toLowerCase()}`
      begin()
      await bed.handOver(name, `value-of-${name}`)
      await bed.credential(name, { secretRef: { name } })
      const seen = await bed.credentialWhen(name, (one) => reasonOf(one, 'Ready') === reason)
      const words = seen.status?.conditions?.find(({ type }) => type === 'Ready')?.message
      expect(words).toContain(code)
      expect(JSON.stringify(seen)).not.toContain(`value-of-${name}`)
      expect(await bed.hasSecret(name)).toBe(true)
      end()
      bed.davit.clock.jump(AGAIN_MS)
      await bed.credentialWhen(name, isReady)
      expect(store().value(nameOf(name))).toBe(`value-of-${name}`)
    },
  )
})

describe('a credential of ECR', () => {
  test('is ready without anything in the account', async () => {
    await bed.davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace: bed.organization, name: 'own' },
      spec: { type: 'ecr', label: 'own', registry: `222222222222.dkr.ecr.${REGION}.amazonaws.com` },
    })
    await bed.credentialWhen('own', isReady)
    expect(store().get(nameOf('own'))).toBeUndefined()
  })

  test('of a host that only looks like one is refused by name', async () => {
    const registry = `222222222222.dkr.ecr.${REGION}.amazonaws.com.evil.test`
    await bed.davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace: bed.organization, name: 'alike' },
      spec: { type: 'ecr', label: 'alike', registry },
    })
    const { status } = await bed.credentialWhen(
      'alike',
      (seen) => reasonOf(seen, 'Ready') === 'InvalidRegistry',
    )
    expect(status?.conditions?.find(({ type }) => type === 'Ready')?.message).toContain(
      'spec.registry must end with an AWS domain',
    )
  })
})

describe('a parameter that somebody else', () => {
  test('has changed is found without reading it, and who it was is named', async () => {
    await stored('drifting')
    byHand(nameOf('drifting'), 'changed')
    bed.davit.clock.jump(LISTED_EVERY_MS)
    const { status } = await bed.credentialWhen(
      'drifting',
      (seen) => reasonOf(seen, 'Drifted') === 'ChangedOutsideDavit',
    )
    expect(status?.conditions?.find(({ type }) => type === 'Drifted')?.message).toContain(SOMEBODY)
    expect(status?.parameter?.version).toBe(1)
  })
})

describe('a role', () => {
  test('that can read is used with a warning, which names what it can do', async () => {
    const { trust, writer } = await settingsRole()
    const reader = {
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: ['ssm:*', 'kms:*'], Resource: '*' }],
    }
    account.changeRole(role, { trust, policies: { reader } })
    bed.davit.clock.jump(4_000_000)
    const seen = await bed.settingsWhen((settings) => reasonOf(settings, 'WriteOnly') === 'CanRead')
    expect(isReady(seen)).toBe(true)
    expect(seen.status?.conditions?.find(({ type }) => type === 'WriteOnly')?.message).toContain(
      'ssm:GetParameter',
    )
    account.changeRole(role, { trust, policies: { writer } })
  })

  test('that can read nothing but what is named as a credential is found to read', async () => {
    const { trust, writer } = await settingsRole()
    const Statement = [
      ...writer.Statement.filter(({ Sid }) => Sid !== 'NeverReadSecrets'),
      {
        Sid: 'Read',
        Effect: 'Allow',
        Action: 'ssm:GetParameter',
        Resource: 'arn:aws:ssm:*:*:parameter/davit/*/rc_*',
      },
    ]
    account.changeRole(role, { trust, policies: { writer: { ...writer, Statement } } })
    bed.davit.clock.jump(4_000_000)
    await bed.settingsWhen((settings) => reasonOf(settings, 'WriteOnly') === 'CanRead')
    account.changeRole(role, { trust, policies: { writer } })
    bed.davit.clock.jump(4_000_000)
    await bed.settingsWhen((settings) => reasonOf(settings, 'WriteOnly') === 'ReadsDenied')
  })

  test.each([
    { right: 'ssm:DescribeParameters', statement: 'ListSecrets' },
    { right: 'ssm:ListTagsForResource', statement: 'WriteSecrets' },
    { right: 'ssm:DeleteParameter', statement: 'WriteSecrets' },
  ])('that lacks $right is not ready, and it is said what to paste', async ({ right, statement }) => {
    const { trust, writer } = await settingsRole()
    const without = { Sid: 'Not', Effect: 'Deny', Action: right, Resource: '*' }
    const policy = { ...writer, Statement: [...writer.Statement, without] }
    account.changeRole(role, { trust, policies: { writer: policy } })
    bed.davit.clock.jump(4_000_000)
    const seen = await bed.settingsWhen((settings) => reasonOf(settings, 'Ready') === 'PermissionMissing')
    const words = seen.status?.conditions?.find(({ type }) => type === 'Ready')?.message
    for (const said of ['AccessDeniedException', right, statement]) expect(words).toContain(said)
    account.changeRole(role, { trust, policies: { writer } })
    bed.davit.clock.jump(4_000_000)
    await bed.settingsWhen(isReady)
  })

  test('that lets anybody in who knows its name is refused', async () => {
    const { trust, writer } = await settingsRole()
    const open = JSON.parse(JSON.stringify(trust)) as { Statement: { Condition?: unknown }[] }
    for (const statement of open.Statement) delete statement.Condition
    account.changeRole(role, { trust: open as never, policies: { writer } })
    bed.davit.clock.jump(4_000_000)
    const seen = await bed.settingsWhen(
      (settings) => reasonOf(settings, 'Ready') === 'OtherExternalIdAccepted',
    )
    expect(seen.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toContain('sts:ExternalId')
    account.changeRole(role, { trust, policies: { writer } })
    bed.davit.clock.jump(4_000_000)
    await bed.settingsWhen(isReady)
  })
})

test('another account asks for the secret again, and removes the parameter of the one before', async () => {
  await stored('moving')
  const { status } = await bed.settingsWhen(isReady)
  const made = bed.aws.account(OTHER_ACCOUNT, {
    trustPolicy: status?.trustPolicy ?? '',
    writerPolicy: (status?.writerPolicy ?? '').replaceAll('222222222222', OTHER_ACCOUNT),
  })
  await bed.settings({ region: REGION, roleArn: made.role.arn })
  await bed.credentialWhen('moving', (seen) => reasonOf(seen, 'Stored') === 'AccountChanged')
  await until(
    async () => store().get(nameOf('moving')) === undefined || undefined,
    () => 'the old parameter is still there',
  )
  await bed.handOver('moving-secret', 'again')
  await bed.credentialWhen('moving', isReady)
  expect(made.account.parameters(REGION).value(nameOf('moving'))).toBe('again')
})
