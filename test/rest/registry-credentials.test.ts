/**
 * Registry credentials and secrets settings over REST, on the real API server and an AWS emulator (interface §2.1, §2.6, §4.1,
 * §5, §7).
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import { secretsSettingsResource } from '../../src/apis/secrets-settings.ts'
import { isApiError } from '../../src/kube/client.ts'
import type { Account, Role } from '../../test-support/aws/account.ts'
import { REGION } from '../support/aws/organization-account.ts'
import { testNamespace } from '../support/control-plane.ts'
import { answered } from '../support/rest-client.ts'
import { ACCOUNT, CREDENTIAL, CREDENTIALS, RestSecrets, SETTINGS, TOKEN } from '../support/rest-secrets.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'

let bed: RestSecrets
let account: Account
let role: Role

beforeAll(async () => {
  bed = await RestSecrets.start('rest-credentials')
})
afterAll(async () => {
  await bed?.stop()
})
afterEach(() => {
  bed.aws.emulator.script.clear()
  expect(bed.aws.emulator.defects).toEqual([])
})

const parameters = () => account.parameters(REGION)
const nameOf = (id: string) => `/davit/${bed.orgId}/${id}`
const puts = () => bed.aws.emulator.trail.entries({ operation: 'PutParameter', account: ACCOUNT })
const path = () => ({ orgId: bed.orgId })

async function made(more: Parameters<RestSecrets['create']>[0] = {}): Promise<string> {
  return answered(await bed.create(more)).id
}

describe('before an account is connected', () => {
  test('the settings show what the role has to be made with', async () => {
    const [one, other] = await Promise.all(
      bed.clients.map(async (client) => answered(await client.GET(SETTINGS, { params: { path: path() } }))),
    )
    expect(one).toEqual({
      externalId: expect.stringMatching(/^davit-[0-9a-z]{32}$/),
      parameterPrefix: `/davit/${bed.orgId}`,
      conditions: [],
    })
    expect(other).toEqual(one)
  })

  test('a token cannot be saved, and ecr can', async () => {
    const { error, response } = await bed.create()
    expect([response.status, error?.code]).toEqual([409, 'secrets_settings_required'])
    const created = answered(await bed.create({ type: 'ecr', registry: ECR, ...NOTHING }))
    expect(created).toMatchObject({ type: 'ecr', registry: ECR, label: 'GitHub' })
    expect((await bed.stored(created.id)).metadata).not.toHaveProperty('finalizers')
    const { error: refused } = await bed.create({ type: 'ecr', registry: ECR })
    expect(refused?.errors?.map(({ pointer }) => pointer)).toEqual(['/username', '/secret'])
  })

  test('settings without a role are kept, and say what is missing', async () => {
    const settings = await bed.put({ region: REGION })
    expect(settings.region).toBe(REGION)
    expect(settings.conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', status: 'False', reason: 'RoleRequired' }),
    )
    const { error, response } = await bed.create()
    expect([response.status, error?.code, error?.condition]).toEqual([
      409,
      'cloud_account_not_ready',
      expect.objectContaining({ type: 'Ready', status: 'False', reason: 'RoleRequired' }),
    ])
    expect((await bed.allStored()).filter(({ spec }) => spec.type === 'token')).toEqual([])
  })

  test('a role of another partition than the region is refused', async () => {
    const roleArn = `arn:aws-cn:iam::${ACCOUNT}:role/davit`
    const params = { path: path() }
    const { error } = await bed.clients[0].PUT(SETTINGS, { params, body: { region: REGION, roleArn } })
    expect([error?.code, error?.errors?.[0]?.message]).toEqual(['invalid', expect.stringContaining('region')])
  })
})

const NOTHING = { username: undefined as never, secret: undefined as never }

describe('with an account', () => {
  beforeAll(async () => {
    ;({ account, role } = await bed.connect())
  })

  test('a token is in the account, in the session of its organization, and nowhere in the cluster', async () => {
    const answer = await bed.create({ registry: 'GHCR.io' })
    const credential = answered(answer)
    expect(credential).toEqual({
      id: expect.stringMatching(/^rc_[0-9a-z]{26}$/),
      type: 'token',
      label: 'GitHub',
      registry: 'ghcr.io',
      username: 'bot',
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: credential.createdAt,
    })
    expect([answer.response.status, answer.response.headers.get('location')]).toEqual([
      201,
      `registry-credentials/${credential.id}`,
    ])
    expect(parameters().value(nameOf(credential.id))).toBe(TOKEN.secret)
    const call = puts().at(-1)
    expect(call?.parameters).toMatchObject({ Type: 'SecureString', Tier: 'Standard', Overwrite: false })
    expect(call?.session).toMatchObject({
      roleArn: role.arn,
      name: `davit-${bed.orgId}`,
      externalId: expect.stringMatching(/^davit-/),
      tags: { 'davit.dev/organization': bed.orgId },
    })
    expect(JSON.stringify(call?.session?.policy)).toContain(`parameter/davit/${bed.orgId}/*`)
    const stored = await bed.stored(credential.id)
    expect(stored).toMatchObject({
      spec: { type: 'token', registry: 'ghcr.io', username: 'bot', label: 'GitHub' },
      status: {
        parameter: {
          name: nameOf(credential.id),
          version: 1,
          region: REGION,
          account: ACCOUNT,
          roleArn: role.arn,
        },
      },
    })
    expect(JSON.stringify(await bed.allStored())).not.toContain(TOKEN.secret)
    for (const at of [0, 1] as const) {
      const read = await bed.get(credential.id, at)
      expect([answered(read), read.response.headers.get('etag')]).toEqual([
        credential,
        answer.response.headers.get('etag'),
      ])
    }
  })

  test('the list has all of them by name, page by page, at each REST server', async () => {
    for (let count = 0; count < 3; count += 1) await made()
    const all = (await bed.allStored()).map(({ metadata }) => `rc_${metadata.name}`).toSorted()
    for (const client of bed.clients) {
      const list = async (query: { limit: number; cursor?: string }) =>
        answered(await client.GET(CREDENTIALS, { params: { path: path(), query } }))
      await until(
        async () => (await list({ limit: 200 })).registryCredentials.length === all.length || undefined,
        () => 'the list is not complete',
      )
      const seen: string[] = []
      let cursor: string | null = null
      do {
        const page = await list({ limit: 2, ...(cursor === null ? {} : { cursor }) })
        seen.push(...page.registryCredentials.map(({ id }) => id))
        cursor = page.cursor
      } while (cursor !== null)
      expect(seen).toEqual(all)
    }
  })

  test('names of one registry are one host', async () => {
    for (const [registry, host] of [
      ['GHCR.IO', 'ghcr.io'],
      ['ghcr.io.', 'ghcr.io'],
      ['index.docker.io', 'docker.io'],
      ['Registry-1.Docker.IO', 'docker.io'],
      ['Registry.Example.com:5000', 'registry.example.com:5000'],
    ] as const) {
      const credential = answered(await bed.create({ registry }))
      expect([credential.registry, (await bed.stored(credential.id)).spec.registry]).toEqual([host, host])
    }
    const name = 'by-kubectl'
    const spec = { type: 'token', label: 'Hub', registry: 'Index.Docker.io.', username: 'bot' }
    await bed.davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace: bed.orgId, name },
      spec,
    })
    const shown = await until(
      async () => (await bed.get(`rc_${name}`)).data,
      () => 'it is not shown yet',
    )
    expect(shown.registry).toBe('docker.io')
  })

  test('a new secret is a new version, which is pinned', async () => {
    const id = await made()
    const before = answered(await bed.get(id))
    const changed = answered(await bed.change(id, { secret: 'the next one', label: 'Next' }, { at: 1 }))
    expect(changed).toMatchObject({ label: 'Next', username: 'bot', createdAt: before.createdAt })
    expect(changed.updatedAt > before.updatedAt).toBe(true)
    expect(parameters().value(nameOf(id))).toBe('the next one')
    const { status, metadata } = await bed.stored(id)
    expect([status?.parameter?.version, metadata.annotations]).toEqual([2, undefined])
    expect(answered(await bed.get(id))).toEqual(changed)
  })

  test('fields that the cluster refuses leave the secret as it is', async () => {
    const id = await made()
    const ifMatch = (await bed.get(id)).response.headers.get('etag') ?? ''
    answered(await bed.change(id, { label: 'Other' }))
    const params = { path: { ...path(), credentialId: id }, header: { 'If-Match': ifMatch } }
    const body = { secret: 'the next one', username: 'next' }
    const { response } = await bed.clients[0].PATCH(CREDENTIAL, { params, body })
    expect([response.status, parameters().get(nameOf(id))?.versions.length]).toEqual([412, 1])
  })

  test('a secret that was typed into another field is refused, and is not in the refusal', async () => {
    const id = await made()
    const secret = `ghp_${'Zm9yLW5vYm9keQ'.repeat(3)}`
    const fields = [
      { username: `bot:${secret}` },
      { username: secret.repeat(20) },
      { username: { value: secret } },
      { label: secret.repeat(20) },
      { password: secret },
      { [secret]: 'secret' },
    ]
    const hosts = [{ registry: `https://bot:${secret}@ghcr.io` }, { registry: secret }, { type: secret }]
    const route = `/organizations/${bed.orgId}/registry-credentials`
    const asked = [
      ...[...fields, ...hosts].map((wrong) => ({ method: 'POST', at: route, body: { ...TOKEN, ...wrong } })),
      ...fields.map((wrong) => ({ method: 'PATCH', at: `${route}/${id}`, body: wrong })),
    ]
    for (const { method, at, body } of asked) {
      const { status, json } = await ask(bed.servers[0], at, {
        key: bed.key,
        method,
        body: JSON.stringify(body),
      })
      expect([status, JSON.stringify(json).includes(secret), body]).toEqual([
        expect.toBeOneOf([400, 422]),
        false,
        body,
      ])
    }
  })

  test('If-Match holds a change to what was seen', async () => {
    const id = await made()
    const ifMatch = (await bed.get(id)).response.headers.get('etag') ?? ''
    const params = { path: { ...path(), credentialId: id }, header: { 'If-Match': ifMatch } }
    const change = (label: string) => bed.clients[0].PATCH(CREDENTIAL, { params, body: { label } })
    expect((await change('One')).response.status).toBe(200)
    expect((await change('Two')).response.status).toBe(412)
  })

  test('one that is deleted is gone immediately at both REST servers, and soon from the cluster', async () => {
    const id = await made()
    const params = { path: { ...path(), credentialId: id } }
    expect((await bed.clients[0].DELETE(CREDENTIAL, { params })).response.status).toBe(204)
    for (const at of [0, 1] as const) expect((await bed.get(id, at)).response.status).toBe(404)
    expect((await bed.clients[1].DELETE(CREDENTIAL, { params })).response.status).toBe(404)
    await until(
      async () => await isGone(id),
      () => `${id} is still there`,
    )
  })

  test('a credential of another organization is not there, in the same words as one that nobody has', async () => {
    const id = await made()
    const otherOrganization = await testNamespace('rest-credentials-other')
    const answer = await ask(
      bed.servers[0],
      `/organizations/${otherOrganization}/registry-credentials/${id}`,
      {
        key: bed.key,
      },
    )
    expect([answer.status, answer.json.code]).toEqual([404, 'not_found'])
    const own = await ask(bed.servers[0], `/organizations/${bed.orgId}/registry-credentials/rc_none`, {
      key: bed.key,
    })
    expect({ ...answer.json, requestId: '' }).toEqual({ ...own.json, requestId: '' })
  })

  test('settings that are deleted with kubectl are as before any', async () => {
    await bed.davit.api.delete(secretsSettingsResource, { namespace: bed.orgId, name: 'default' })
    await until(
      async () => {
        const settings = answered(await bed.clients[0].GET(SETTINGS, { params: { path: path() } }))
        return (settings.conditions.length === 0 && settings.region === undefined) || undefined
      },
      () => 'there are still settings',
    )
    expect((await bed.create()).error?.code).toBe('secrets_settings_required')
  })
})

async function isGone(id: string): Promise<true | undefined> {
  try {
    await bed.stored(id)
    return undefined
  } catch (error) {
    if (isApiError(error, 'NotFound')) return true
    throw error
  }
}
