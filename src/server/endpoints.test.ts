import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { ACME, draft, EndpointsBed } from '../../test/support/endpoints-bed.ts'
import { calling } from '../../test/support/faulty-api.ts'
import { leases, secrets } from '../apis/core-kinds.ts'
import { webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError, UnreadableError } from '../kube/client.ts'
import { fingerprintOf } from '../webhooks/sender/signature.ts'
import { Problem } from './http/problems.ts'

const away = new ApiError('Unavailable', 'no answer')
const how = { idempotencyKey: 'create-1' }

describe('a create under a key', () => {
  test.each([
    { where: 'before it made its key', at: calling('create', secrets), fault: { before: away } },
    { where: 'when its key was stored', at: calling('create', secrets), fault: { after: away } },
    {
      where: 'before it made the endpoint',
      at: calling('create', webhookEndpoints),
      fault: { before: away },
    },
    {
      where: 'when the endpoint was stored',
      at: calling('create', webhookEndpoints),
      fault: { after: away },
    },
  ])('that failed $where is finished by its repeat, which has the secret', async ({ at, fault }) => {
    const bed = new EndpointsBed()
    bed.api.fail(at, fault)
    expect(await bed.answer(codeOf(bed.endpoints.create(ACME, draft(), how)))).toBe('unavailable')
    const repeat = await bed.answer(bed.endpoints.create(ACME, draft(), how))
    expect(repeat).toMatchObject({ secret: expect.any(String), etag: expect.any(String), replayed: false })
    expect(await bed.keysOf(repeat.endpoint)).toMatchObject([{ secret: repeat.secret }])
    const again = await bed.answer(bed.endpoints.create(ACME, draft(), how))
    expect(again).toEqual({ endpoint: repeat.endpoint, etag: repeat.etag, replayed: true })
    expect(bed.store.all(webhookEndpoints)).toHaveLength(1)
  })
})

const PLAIN = expect.stringMatching(
  /^Davit sends plain HTTP only to networks that the cluster operator allows\./,
)

describe('a URL that is accepted, although attempts may fail because of it,', () => {
  test.each([
    { url: 'http://hooks.example.com/x', warnings: [PLAIN] },
    { url: 'HTTP://Hooks.Example.com.:8080/', warnings: [PLAIN] },
    { url: 'https://hooks.example.com/x', warnings: undefined },
    { url: 'http://10.0.0.1/x', warnings: undefined },
    { url: 'http://receiver.acme.svc/x', warnings: undefined },
    { url: 'http://hooks.corp.example/x', warnings: undefined },
  ])('gets a warning when it is stored, and in a repeat: $url, $warnings', async ({ url, warnings }) => {
    const bed = new EndpointsBed()
    const create = () => bed.answer(bed.endpoints.create(ACME, draft({ url }), how))
    const made = await create()
    expect([made.warnings, (await create()).warnings]).toEqual([warnings, warnings])
    const { endpointId } = await bed.make()
    const change = (change: object) =>
      bed.answer(bed.endpoints.change({ organization: ACME, endpointId }, change, {}))
    expect((await change({ url })).warnings).toEqual(warnings)
    expect(await change({ description: 'Billing' })).not.toHaveProperty('warnings')
  })
})

test('a create in a recreated namespace is not answered from a key of the earlier one', async () => {
  const bed = new EndpointsBed()
  const { endpoint } = await bed.answer(bed.endpoints.create(ACME, draft(), how))
  const name = endpoint.endpointId.slice('whe_'.length)
  await bed.store.delete(webhookEndpoints, { namespace: ACME, name })
  bed.replica.organize(ACME, 'uid-of-another')
  const other = draft({ url: 'https://other.example/hooks' })
  const made = await bed.answer(bed.endpoints.create(ACME, other, how))
  expect(made).toMatchObject({ secret: expect.any(String), replayed: false, endpoint: { url: other.url } })
  expect(made.endpoint.endpointId).not.toBe(endpoint.endpointId)
  expect(bed.store.all(webhookEndpoints)).toHaveLength(1)
})

describe('a create that another replica has not seen in time', () => {
  test('says how to get the secret, which its repeat has', async () => {
    const bed = new EndpointsBed()
    const { untilKnown } = bed.replicas
    bed.replicas.untilKnown = async (_endpoint, advice) => {
      throw new Problem('not_acknowledged', { detail: `Late.${advice}` })
    }
    await expect(bed.answer(bed.endpoints.create(ACME, draft(), how))).rejects.toMatchObject({
      detail: expect.stringMatching(/^Late\. .*does not contain the signing secret.*same Idempotency-Key/),
    })
    bed.replicas.untilKnown = untilKnown
    const repeat = await bed.answer(bed.endpoints.create(ACME, draft(), how))
    expect(repeat).toMatchObject({ secret: expect.any(String), replayed: false })
  })
})

describe('the limit of endpoints', () => {
  test('holds for creates under keys that come at a time', async () => {
    const bed = new EndpointsBed(2)
    const answers = Array.from({ length: 5 }, (_, number) =>
      codeOf(bed.endpoints.create(ACME, draft(), { idempotencyKey: `key ${number}` })),
    )
    const codes = await bed.answer(Promise.all(answers))
    expect(codes.toSorted()).toEqual(['answered', 'answered', ...Array(3).fill('too_many_endpoints')])
    expect(bed.store.all(webhookEndpoints)).toHaveLength(2)
    // Those that were refused used up no key.
    expect(bed.log.stored().filter(({ kind }) => kind === 'claim')).toHaveLength(2)
  })

  test.each([
    { under: 'keys', key: (number: number) => ({ idempotencyKey: `key ${number}` }) },
    { under: 'no keys', key: () => ({}) },
  ])('holds for creates under $under through two servers at a time', async ({ key }) => {
    const bed = new EndpointsBed(3)
    const servers = [bed.endpoints, bed.another()]
    const answers = Array.from({ length: 8 }, (_, number) =>
      codeOf((servers[number % 2] ?? bed.endpoints).create(ACME, draft(), key(number))),
    )
    const codes = await bed.answer(Promise.all(answers))
    expect(bed.store.all(webhookEndpoints)).toHaveLength(3)
    expect(codes.filter((code) => code === 'answered')).toHaveLength(3)
    expect(bed.store.all(leases)).toEqual([])
    // One after the other, too: the watch of the second shows none of the first's.
    for (const server of servers)
      expect(await bed.answer(codeOf(server.create(ACME, draft(), {})))).toBe('too_many_endpoints')
  })

  test('counts one that is made once, while the controller has not looked at it', async () => {
    const bed = new EndpointsBed(2)
    bed.away = true
    const first = bed.endpoints.create(ACME, draft(), {})
    for (let turn = 0; turn < 20; turn += 1) await bed.turn()
    expect(bed.store.all(webhookEndpoints)).toHaveLength(1)
    expect(await bed.late(bed.endpoints.create(ACME, draft(), {}))).toBe('answered')
    await first
    expect(await bed.late(bed.endpoints.create(ACME, draft(), {}))).toBe('too_many_endpoints')
  })

  test('holds for a repeat that would be the first to make it, and comes back from what fails', async () => {
    const bed = new EndpointsBed(1)
    bed.api.fail(calling('create', webhookEndpoints), { before: away })
    expect(await bed.answer(codeOf(bed.endpoints.create(ACME, draft(), how)))).toBe('unavailable')
    const { secret: _, ...other } = await bed.make()
    await expect(bed.answer(bed.endpoints.create(ACME, draft(), how))).rejects.toMatchObject({
      code: 'too_many_endpoints',
      detail: 'The organization has 1 endpoint, and the limit is 1. Delete one first.',
    })
    await bed.answer(bed.endpoints.remove(other, {}))
    expect(await bed.answer(codeOf(bed.endpoints.create(ACME, draft(), how)))).toBe('answered')
  })
})

describe('the key of an endpoint that was not made', () => {
  test('stays where the endpoint was made after all, and cannot be read', async () => {
    const bed = new EndpointsBed()
    const unreadable = new UnreadableError('WebhookEndpoint', 'acme/x')
    bed.api.fail(calling('create', webhookEndpoints), { after: unreadable })
    await expect(bed.answer(bed.endpoints.create(ACME, draft(), {}))).rejects.toThrow()
    expect(bed.store.all(secrets)).toHaveLength(1)
  })

  test('is taken back as it was made, and not when somebody has changed it', async () => {
    const refused = new ApiError('Forbidden', 'no')
    for (const isChanged of [false, true]) {
      const bed = new EndpointsBed()
      let go: () => void = () => undefined
      const hold = new Promise<void>((resolve) => {
        go = resolve
      })
      bed.api.fail(calling('create', webhookEndpoints), { before: refused })
      bed.api.fail(calling('delete', secrets), { hold })
      const answer = bed.endpoints.create(ACME, draft(), {}).catch((error: unknown) => error)
      for (let turn = 0; turn < 20; turn += 1) await bed.turn()
      const [raw] = bed.store.all(secrets)
      if (isChanged && raw) await bed.store.patch(secrets, raw.metadata, { data: raw.data })
      go()
      await bed.answer(answer)
      expect(bed.store.all(secrets)).toHaveLength(isChanged ? 1 : 0)
    }
  })
})

test('the signing secrets of an endpoint are listed by fingerprint', async () => {
  const bed = new EndpointsBed()
  const { secret: first = '', ...id } = await bed.make()
  const rolled = await bed.answer(bed.endpoints.roll(id, { expireOld: false }, {}))
  expect(await bed.answer(bed.endpoints.secrets(id))).toEqual([
    { fingerprint: fingerprintOf(rolled.secret ?? ''), createdAt: expect.any(String) },
    { fingerprint: fingerprintOf(first), createdAt: expect.any(String), expiresAt: expect.any(String) },
  ])
})
