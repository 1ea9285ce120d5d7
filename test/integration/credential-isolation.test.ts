/** Organizations that share accounts and roles, and want what is another one's: none of them gets anything (interface §2.1, §2.6). */
import type { AssumeRoleCommandInput } from '@aws-sdk/client-sts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { namespace, namespaces } from '../../src/apis/core-kinds.ts'
import { sessionPolicy } from '../../src/credentials/aws/policies.ts'
import type { TrailEntry } from '../../test-support/aws/trail.ts'
import { makeRole, nameRole } from '../support/aws/connect-organization.ts'
import { REGION } from '../support/aws/organization-account.ts'
import {
  ALLOW_ALL,
  CREDENTIALS,
  isReady,
  ORGANIZATIONS,
  Rivals,
  WITH_SHARED_ROLE,
} from '../support/aws/rival-organizations.ts'
import { StolenSession } from '../support/aws/stolen-session.ts'

let rivals: Rivals

beforeAll(async () => {
  rivals = await Rivals.start()
})

afterAll(async () => {
  const defects = rivals?.aws.emulator.defects
  await rivals?.stop()
  expect(defects).toEqual([])
})

const store = (region = REGION) => rivals.account.parameters(region)
const ORGANIZATION_TAG = 'davit.dev/organization'

function stored(): Record<string, string | undefined> {
  return Object.fromEntries(
    store()
      .list()
      .map(({ name }) => [name, store().value(name)]),
  )
}

/** What each of them saved, where it saved it. */
function saved(): Record<string, string> {
  const pairs = ORGANIZATIONS.flatMap((organization) =>
    CREDENTIALS.map((name) => [rivals.nameOf(organization, name), `${organization} ${name}`]),
  ).concat([...rivals.savedByRest])
  return Object.fromEntries(pairs.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)))
}

/** Names of parameters in a call. */
function namesIn({ parameters }: TrailEntry): string[] {
  return (JSON.stringify(parameters).match(/"\/[^"]*"/g) ?? []).map((text) => text.slice(1, -1))
}

test('what all of them saved under the same names is where it belongs', () => {
  expect(stored()).toEqual(saved())
})

describe('every call to a store', () => {
  test('is made in a session on the terms of its organization, and names nothing outside of its path', async () => {
    const calls = rivals.aws.emulator.trail.entries({ service: 'ssm' })
    expect(calls.length).toBeGreaterThan(60)
    const seen = new Set<string>()
    for (const call of calls) {
      const organization = call.session?.tags[ORGANIZATION_TAG] ?? ''
      seen.add(organization)
      const { status } = await rivals.settingsWhen(organization, () => true)
      const { metadata } = namespace.parse(await rivals.davit.api.get(namespaces, { name: organization }))
      const roleArn = rivals.roles.get(organization)?.arn ?? ''
      const purpose = call.operation.startsWith('GetParameter') ? 'probe' : 'write'
      const policy = JSON.stringify(
        sessionPolicy({ organization, roleArn, region: REGION }, '/davit', purpose),
      )
      expect(call.session).toMatchObject({
        roleArn,
        policy,
        externalId: status?.externalId,
        tags: { [ORGANIZATION_TAG]: organization, 'davit.dev/organization-uid': metadata.uid },
      })
      const path = `/davit/${organization}`
      const outside = namesIn(call).filter((name) => name !== path && !name.startsWith(`${path}/`))
      expect(outside).toEqual([])
    }
    expect([...seen].toSorted()).toEqual(ORGANIZATIONS.toSorted())
  })

  test('follows an assumption of the role with the external id of that organization, and no other one succeeds', async () => {
    for (const { parameters, error } of rivals.aws.emulator.trail.entries({ operation: 'AssumeRole' })) {
      const tags = parameters.Tags as { Key: string; Value: string }[]
      const organization = tags.find(({ Key }) => Key === ORGANIZATION_TAG)?.Value ?? ''
      const { status } = await rivals.settingsWhen(organization, () => true)
      if (parameters.ExternalId === status?.externalId) continue
      expect(error?.code).toBe('AccessDenied')
    }
  })
})

describe('who names', () => {
  test('the role of another organization in its settings is not let in, since its external id is its own', async () => {
    const acme = rivals.roles.get('acme')?.arn ?? ''
    await rivals.found('thief')
    const connecting = rivals.connecting('thief')
    await makeRole(connecting)
    await nameRole(connecting, { arn: acme })
    await rivals.handOver('thief', 'ghcr', 'of the thief')
    await rivals.makeCredential('thief', 'ghcr')
    const { status } = await rivals.settingsWhen('thief', (settings) =>
      Boolean(settings.status?.conditions?.some(({ reason }) => reason === 'RoleRefused')),
    )
    const { status: ofAcme } = await rivals.settingsWhen('acme', () => true)
    expect(JSON.stringify(status)).not.toContain(ofAcme?.externalId)
    await rivals.credentialWhen('thief', 'ghcr', (seen) => reasonOf(seen) === 'AccountNotReady')
    const answer = await rivals.saveByRest('thief', 'of the thief')
    expect(answer).toMatchObject({ status: 409, text: expect.stringContaining('cloud_account_not_ready') })
    expect(answer.text).not.toContain(ofAcme?.externalId)
    expect(stored()).toEqual(saved())
  })

  test('the KMS key of another organization is refused by the policy of that key', async () => {
    const acme = rivals.roles.get('acme')?.arn ?? ''
    const key = rivals.account.keys(REGION).add({ policy: onlyFor(acme) })
    await rivals.found('thief-of-keys')
    const connecting = rivals.connecting('thief-of-keys')
    const role = await makeRole(connecting)
    rivals.account.changeRole(role, { policies: { all: ALLOW_ALL } })
    const ref = { namespace: 'thief-of-keys', name: 'default' }
    const { secretsSettingsResource } = await import('../../src/apis/secrets-settings.ts')
    await rivals.davit.api.patch(secretsSettingsResource, ref, {
      spec: { roleArn: role.arn, kmsKeyId: key.arn },
    })
    await rivals.settingsWhen('thief-of-keys', ({ status }) =>
      Boolean(status?.conditions?.some(({ reason }) => reason === 'WriteRefused')),
    )
    expect(stored()).toEqual(saved())
  })

  test('a Secret that only another organization has gets none', async () => {
    await rivals.handOver('acme', 'only-of-acme', 'of acme alone')
    await rivals.makeCredential('acme-x', 'only-of-acme')
    await rivals.credentialWhen('acme-x', 'only-of-acme', (seen) => reasonOf(seen) === 'SecretMissing')
    expect(stored()).toEqual(saved())
  })

  test('another region has its own parameters there, under its own path', async () => {
    const [organization = ''] = WITH_SHARED_ROLE
    const region = 'us-east-1'
    const { secretsSettingsResource } = await import('../../src/apis/secrets-settings.ts')
    const move = (to: string) =>
      rivals.davit.api.patch(
        secretsSettingsResource,
        { namespace: organization, name: 'default' },
        { spec: { region: to } },
      )
    await move(region)
    await rivals.settingsWhen(organization, isReady)
    await rivals.handOver(organization, 'moved', 'there')
    await rivals.makeCredential(organization, 'moved')
    await rivals.credentialWhen(organization, 'moved', ({ status }) => status?.parameter !== undefined)
    expect(
      store(region)
        .list()
        .map(({ name }) => name),
    ).toEqual([rivals.nameOf(organization, 'moved')])
    const others = Object.entries(saved()).filter(([name]) => !name.startsWith(`/davit/${organization}/`))
    expect(stored()).toMatchObject(Object.fromEntries(others))
  })
})

describe('who has stolen a session', () => {
  test('can do nothing with it in another organization, even where the role may do everything', async () => {
    for (const role of new Set(rivals.roles.values()))
      rivals.account.changeRole(role, { policies: { all: ALLOW_ALL } })
    const before = JSON.stringify(store().list())
    for (const terms of termsByOrganization()) {
      const own = terms.Tags?.find(({ Key }) => Key === ORGANIZATION_TAG)?.Value
      const session = await StolenSession.of(terms, { url: rivals.aws.emulator.url, region: REGION })
      for (const other of ORGANIZATIONS.filter((name) => name !== own)) {
        for (const name of [rivals.nameOf(other, 'ghcr'), rivals.nameOf(other, 'new')]) {
          const done = Object.entries(await session.tryAll(name)).filter(
            ([, outcome]) => outcome !== 'AccessDeniedException',
          )
          expect(done, `${own} at ${name}`).toEqual([])
        }
      }
      session.end()
    }
    expect(JSON.stringify(store().list())).toBe(before)
  })

  test('reads nothing in its own one either, and destroys what is there', async () => {
    const terms = termsByOrganization().find(({ RoleSessionName }) => RoleSessionName === 'davit-acme-x')
    if (!terms) throw new Error('acme-x has no session')
    const session = await StolenSession.of(terms, { url: rivals.aws.emulator.url, region: REGION })
    const outcomes = await session.tryAll(rivals.nameOf('acme-x', 'ghcr'))
    session.end()
    expect(outcomes).toMatchObject({ overwrite: 'done', 'list tags': 'done', delete: 'done' })
    const reads = Object.entries(outcomes).filter(([what]) => what.startsWith('read'))
    expect(reads.every(([, outcome]) => outcome === 'AccessDeniedException')).toBe(true)
  })
})

/** Those of each session that Davit has got to write with, one for each organization. */
function termsByOrganization(): AssumeRoleCommandInput[] {
  const found = new Map<string, AssumeRoleCommandInput>()
  for (const { parameters, error } of rivals.aws.emulator.trail.entries({ operation: 'AssumeRole' })) {
    const { RoleArn, RoleSessionName, ExternalId, Policy, Tags } =
      parameters as unknown as AssumeRoleCommandInput
    const terms = { RoleArn, RoleSessionName, ExternalId, Policy, Tags }
    const isOurs = ORGANIZATIONS.some((name) => terms.Tags?.some(({ Value }) => Value === name))
    if (!error && isOurs && terms.Policy?.includes('NeverRead') && terms.Policy.includes(`:${REGION}:`))
      found.set(terms.RoleSessionName ?? '', terms)
  }
  expect(found.size).toBe(ORGANIZATIONS.length)
  return [...found.values()]
}

function reasonOf({
  status,
}: {
  status?: { conditions?: { type: string; reason: string }[] | undefined } | undefined
}): string | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.reason
}

function onlyFor(roleArn: string): Record<string, unknown> {
  return {
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { AWS: roleArn }, Action: 'kms:*', Resource: '*' }],
  }
}
