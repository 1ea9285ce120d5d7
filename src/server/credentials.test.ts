import { beforeEach, describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import {
  ACME,
  CredentialsBed,
  conditionOf,
  ecr,
  LOCATION,
  ROLE,
  token,
} from '../../test/support/credentials-bed.ts'
import { refusalOf } from '../../test/support/refusal-of.ts'
import { PARAMETER_FINALIZER, registryCredentials } from '../apis/registry-credential.ts'
import { secretsSettingsResource } from '../apis/secrets-settings.ts'
import { CloudError } from '../credentials/cloud.ts'
import { SecretText } from '../lib/redact.ts'

let bed: CredentialsBed
beforeEach(async () => {
  bed = new CredentialsBed()
  await bed.connect()
})

const create = (draft = token(), idempotencyKey?: string) =>
  bed.answer(bed.server().create(ACME, draft, { idempotencyKey }))

test.each([
  { what: 'with secrets', draft: token },
  { what: 'without secrets', draft: ecr },
])(
  'creates $what through two servers at a time stay within the limit, and leave no secret without a credential',
  async ({ draft }) => {
    bed = new CredentialsBed(2)
    await bed.connect()
    const servers = [bed.server(), bed.server()]
    const answers = Array.from({ length: 6 }, (_, number) =>
      codeOf(
        (servers[number % 2] ?? bed.server()).create(ACME, draft(), { idempotencyKey: `key ${number}` }),
      ),
    )
    const codes = await bed.answer(Promise.all(answers))
    expect(codes.toSorted()).toEqual(['answered', 'answered', ...Array(4).fill('too_many_credentials')])
    expect(bed.credentials()).toHaveLength(2)
    expect(bed.cloud.held.length).toBe(draft === token ? 2 : 0)
    for (const server of servers)
      expect(await codeOf(bed.answer(server.create(ACME, draft(), {})))).toBe('too_many_credentials')
  },
)

test('a create in a recreated namespace is not answered from a key of the earlier one', async () => {
  const server = bed.server()
  const under = { idempotencyKey: 'k1' }
  const before = await bed.answer(server.create(ACME, token(), under))
  await bed.recreateNamespace()
  await bed.connect({ roleArn: 'arn:aws:iam::333333333333:role/davit' })
  const made = await bed.answer(server.create(ACME, token({ label: 'Of another' }), under))
  expect(made).toMatchObject({ replayed: false, credential: { label: 'Of another' } })
  expect(made.credential.id).not.toBe(before.credential.id)
  expect(bed.cloud.held.map(({ location }) => location)).toContain('333333333333/eu-west-1')
})

describe('where the status names an account that the spec does not', () => {
  const THIEF = 'arn:aws:iam::666666666666:role/thief'

  test.each([
    ['another role', { roleArn: THIEF, region: 'eu-west-1' }],
    ['another region', { roleArn: ROLE, region: 'us-east-1' }],
    [
      'another key',
      { roleArn: ROLE, region: 'eu-west-1', kmsKeyId: 'arn:aws:kms:eu-west-1:666666666666:key/thief' },
    ],
    ['none', null],
  ])('no secret is stored: %s', async (_, connected) => {
    const id = await bed.make()
    const held = structuredClone(bed.cloud.held)
    await bed.connect({}, { connected })
    const refused = await refusalOf(create())
    expect(refused).toMatchObject({
      code: 'cloud_account_not_ready',
      condition: { type: 'Ready', status: 'Unknown', reason: 'Connecting' },
    })
    const change = { secret: new SecretText('another-secret') }
    expect(await codeOf(bed.answer(bed.server().change(id, change, {})))).toBe('cloud_account_not_ready')
    expect(bed.cloud.held).toEqual(held)
    // With what Davit has tested.
    await bed.connect({}, { connected: { roleArn: ROLE, region: 'eu-west-1', kmsKeyId: null } })
    expect(await create()).toMatchObject({ replayed: false })
  })

  test('no secret is stored: a role, where the spec has none', async () => {
    await bed.connect({ roleArn: null }, { connected: { roleArn: THIEF, region: 'eu-west-1' } })
    expect(await codeOf(create())).toBe('cloud_account_not_ready')
    expect(bed.cloud.held).toEqual([])
  })
})

describe('of the type token', () => {
  test.each([
    [
      'a downloaded key',
      '{\n  "type": "service_account",\n  "key": "a\\nb"\n}\n',
      '{ "type": "service_account", "key": "a\\nb" }',
    ],
    ['a key with tabs and line ends of Windows', '{\r\n\t"a": {"b":{}}}\r\n', '{ "a": {"b":{}}}'],
    ['a key in base64 with broken lines', 'eyJh\nIjox\nfQ==\n', 'eyJhIjoxfQ=='],
    ['JSON in one line', '{"a":{"b":1}}', '{"a":{"b":1}}'],
  ])('%s is stored in one line, when it is created and when it is changed', async (_, given, want) => {
    const { credential } = await create(token({ secret: new SecretText(given) }))
    const id = { organization: ACME, credentialId: credential.id }
    await bed.answer(bed.server().change(id, { secret: new SecretText('another') }, {}))
    await bed.answer(bed.server().change(id, { secret: new SecretText(given) }, {}))
    expect(bed.cloud.held[0]?.versions).toEqual([want, 'another', want])
  })

  test('the secret is in the account, and the credential says where', async () => {
    const { credential, etag, replayed } = await create()
    const name = credential.id.slice('rc_'.length)
    expect(credential).toEqual({
      id: expect.stringMatching(/^rc_[0-9a-z]{26}$/),
      label: 'GitHub',
      registry: 'ghcr.io',
      type: 'token',
      username: 'bot',
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: credential.createdAt,
    })
    expect([typeof etag, replayed]).toEqual(['string', false])
    expect(bed.cloud.held).toMatchObject([
      { location: LOCATION, name: `/davit/acme/${credential.id}`, versions: ['s3cr3t-of-the-bot'] },
    ])
    const [held] = bed.cloud.held
    expect(held && bed.isOurs(held)).toBe(true)
    expect(held?.tags['davit.dev/credential']).toBe(name)
    const [stored] = bed.store.all(registryCredentials)
    expect(stored).toMatchObject({
      metadata: { name, namespace: ACME, finalizers: [PARAMETER_FINALIZER] },
      spec: { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot' },
      status: {
        parameter: {
          name: `/davit/acme/${credential.id}`,
          version: 1,
          region: 'eu-west-1',
          account: '222222222222',
          roleArn: ROLE,
        },
        updatedAt: credential.createdAt,
      },
    })
    expect(JSON.stringify(bed.store.all(registryCredentials))).not.toContain('s3cr3t')
  })

  test('goes where the settings are connected, with the external id of the organization and the key', async () => {
    await bed.connect({ kmsKeyId: 'alias/mine', region: 'us-east-1' })
    await create()
    expect(bed.cloud.held[0]).toMatchObject({
      location: '222222222222/us-east-1',
      access: {
        organization: ACME,
        organizationUid: 'uid-of-acme',
        externalId: bed.identity.externalIdOf('uid-of-acme'),
        kmsKeyId: 'alias/mine',
      },
    })
    expect(bed.credentials()[0]?.status?.parameter?.kmsKeyId).toBe('alias/mine')
  })

  test.each([
    ['GHCR.IO', 'ghcr.io'],
    ['ghcr.io:443', 'ghcr.io'],
    ['index.docker.io', 'docker.io'],
    ['registry.example.com.:5000', 'registry.example.com:5000'],
  ])('the host %s is kept and answered as %s', async (registry, want) => {
    const { credential } = await create(token({ registry }))
    expect([credential.registry, bed.credentials()[0]?.spec.registry]).toEqual([want, want])
  })

  test.each([
    { why: 'a scheme', more: { registry: 'https://ghcr.io' }, want: ['/registry'] },
    { why: 'no user name', more: { username: undefined }, want: ['/username'] },
    { why: 'a user name with a colon', more: { username: 'a:b' }, want: ['/username'] },
    { why: 'no secret', more: { secret: undefined }, want: ['/secret'] },
    { why: 'an empty secret', more: { secret: new SecretText('') }, want: ['/secret'] },
    { why: 'an inner line end', more: { secret: new SecretText('a\nb') }, want: ['/secret'] },
    { why: 'double braces', more: { secret: new SecretText('a{{b}}') }, want: ['/secret'] },
    { why: 'a document that is cut off', more: { secret: new SecretText('{"a":\n"b') }, want: ['/secret'] },
    {
      why: 'nothing of it right',
      more: { registry: 'a/b', username: undefined, secret: undefined },
      want: ['/registry', '/username', '/secret'],
    },
  ])('is refused with $why, and nothing is asked of the cloud', async ({ more, want }) => {
    const refusal = await refusalOf(create(token(more)))
    expect([refusal.code, refusal.errors?.map(({ pointer }) => pointer)]).toEqual(['invalid', want])
    expect([bed.cloud.held, bed.credentials()]).toEqual([[], []])
  })

  test('needs settings, and not those that are being deleted', async () => {
    const ref = { namespace: ACME, name: 'default' }
    await bed.store.patch(secretsSettingsResource, ref, { metadata: { finalizers: ['davit.dev/account'] } })
    await bed.store.delete(secretsSettingsResource, ref)
    expect(await codeOf(create())).toBe('secrets_settings_required')
    const empty = new CredentialsBed()
    expect(await codeOf(empty.answer(empty.server().create(ACME, token(), {})))).toBe(
      'secrets_settings_required',
    )
  })

  test.each([
    {
      why: 'not connected',
      status: { conditions: [conditionOf('False', 'RoleRefused')] },
      want: 'RoleRefused',
    },
    { why: 'connected before a change', status: { observedGeneration: 0 }, want: 'Connecting' },
    { why: 'not looked at', status: { conditions: [] }, want: 'Connecting' },
  ])('is refused with the condition while the account is $why', async ({ status, want }) => {
    await bed.connect({}, status)
    const refusal = await refusalOf(create())
    expect(refusal).toMatchObject({
      code: 'cloud_account_not_ready',
      condition: { type: 'Ready', reason: want },
    })
    expect([bed.cloud.held, bed.credentials()]).toEqual([[], []])
  })

  test.each([
    {
      error: new CloudError('permissions', 'AccessDeniedException', 'not you', {
        operation: 'ssm:PutParameter',
      }),
      want: 'cloud_account_not_ready',
      words: 'AccessDeniedException (ssm:PutParameter): not you',
    },
    { error: new CloudError('spec', 'InvalidKeyId', 'no key'), want: 'cloud_account_not_ready' },
    { error: new CloudError('retry', 'ThrottlingException', 'slow'), want: 'cloud_unavailable' },
    { error: new CloudError('retry', 'Busy', 'no turn'), want: 'overloaded' },
    { error: new CloudError('permissions', 'NoIdentity', 'nobody'), want: 'cloud_unavailable' },
  ])('what the cloud says is $want for $error.code, and nothing stays', async ({ error, want, words }) => {
    bed.cloud.failing.set('create', error)
    const refusal = await refusalOf(create())
    expect(refusal.code).toBe(want)
    if (words !== undefined) expect(refusal.detail).toBe(words)
    if (want !== 'cloud_account_not_ready') expect(refusal.retryAfter).toBeGreaterThan(0)
    expect([bed.cloud.held, bed.credentials()]).toEqual([[], []])
  })

  test("leaves somebody else's parameter of the name alone, and says where it is", async () => {
    bed.cloud.failing.set('create', new CloudError('spec', 'ParameterAlreadyExists', 'there', {}))
    bed.cloud.tagsOf = async () => ({ owner: 'somebody else' })
    const refusal = await refusalOf(create())
    expect(refusal.code).toBe('cloud_account_not_ready')
    expect(refusal.detail).toContain('account 222222222222, region eu-west-1')
    expect(bed.credentials()).toEqual([])
  })
})

describe('of the type ecr', () => {
  test('needs no account, stores nothing, and nothing holds it', async () => {
    bed = new CredentialsBed()
    const { credential } = await create(ecr())
    expect(credential).toMatchObject({ type: 'ecr', label: 'Our images' })
    expect(credential).not.toHaveProperty('username')
    expect(bed.cloud.held).toEqual([])
    expect(bed.store.all(registryCredentials)[0]?.metadata).not.toHaveProperty('finalizers')
  })

  test.each([
    { more: { username: 'bot' }, want: ['/username'] },
    { more: { secret: new SecretText('x'.repeat(9)) }, want: ['/secret'] },
    { more: { registry: 'ghcr.io' }, want: ['/registry'] },
    { more: { registry: 'public.ecr.aws' }, want: ['/registry'] },
    { more: { registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.test' }, want: ['/registry'] },
  ])('is refused at $want with $more', async ({ more, want }) => {
    const refusal = await refusalOf(create(ecr(more)))
    expect([refusal.code, refusal.errors?.map(({ pointer }) => pointer)]).toEqual(['invalid', want])
  })
})

describe('under an Idempotency-Key', () => {
  test('is made once, answered the same, and no new version is written, whatever secret comes with the repeat', async () => {
    const first = await create(token(), 'order-1')
    const again = await create(token({ secret: new SecretText('another one') }), 'order-1')
    expect(again).toEqual({ ...first, replayed: true })
    expect(bed.cloud.held.map(({ versions }) => versions)).toEqual([['s3cr3t-of-the-bot']])
    expect(await codeOf(create(token({ label: 'Other' }), 'order-1'))).toBe('idempotency_conflict')
  })

  test('is answered the same after the credential was deleted, without an ETag', async () => {
    const first = await create(ecr(), 'order-1')
    const id = { organization: ACME, credentialId: first.credential.id }
    await bed.answer(bed.server().remove(id, {}))
    const { etag: _gone, ...rest } = first
    expect(await create(ecr(), 'order-1')).toEqual({ ...rest, replayed: true })
    expect(bed.credentials()).toEqual([])
  })

  test('what is refused uses up no key', async () => {
    const ready = new CredentialsBed()
    const make = (draft = token()) =>
      ready.answer(ready.server().create(ACME, draft, { idempotencyKey: 'order-1' }))
    expect(await codeOf(make())).toBe('secrets_settings_required')
    expect(await codeOf(make(ecr()))).toBe('answered')
  })

  test('a put that failed is made by the repeat', async () => {
    bed.cloud.failing.set('create', new CloudError('retry', 'ThrottlingException', 'slow'))
    expect(await codeOf(create(token(), 'order-1'))).toBe('cloud_unavailable')
    expect(bed.cloud.held).toEqual([])
    expect((await create(token(), 'order-1')).replayed).toBe(false)
    expect(bed.cloud.held).toHaveLength(1)
  })
})

test('stops at as many as the organization may have, also when many come at a time', async () => {
  bed = new CredentialsBed(2)
  await bed.connect()
  const server = bed.server()
  const codes = await Promise.all(
    Array.from({ length: 4 }, () => codeOf(bed.answer(server.create(ACME, token(), {})))),
  )
  expect(codes.toSorted()).toEqual(['answered', 'answered', 'too_many_credentials', 'too_many_credentials'])
  expect(bed.cloud.held).toHaveLength(2)
})
