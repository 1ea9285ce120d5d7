import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { EndpointsBed } from '../../test/support/endpoints-bed.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { calling } from '../../test/support/faulty-api.ts'
import { secrets } from '../apis/core-kinds.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError } from '../kube/client.ts'

const KEEP = { expireOld: false }
const EXPIRE = { expireOld: true }
const HOUR = 3_600_000
const away = new ApiError('Unavailable', 'no answer')

describe('a roll without a key', () => {
  test('that failed puts no secret into force beside the next one, however often it is repeated', async () => {
    const bed = new EndpointsBed()
    const { secret: first, ...id } = await bed.make()
    bed.away = true
    for (let roll = 0; roll < 7; roll += 1)
      expect(await bed.late(bed.endpoints.roll(id, KEEP, {}))).toBe('not_acknowledged')
    await bed.clock.elapse(HOUR)
    bed.away = false
    const { secret } = await bed.answer(bed.endpoints.roll(id, KEEP, {}))
    const end = new Date(bed.clock.now() + 24 * HOUR).toISOString()
    expect(await bed.keysOf(id)).toMatchObject([{ secret }, { secret: first, expiresAt: end }])
  })

  test('whose answer of the store was lost puts none into force either', async () => {
    const bed = new EndpointsBed()
    const { secret: first, ...id } = await bed.make()
    bed.api.fail(calling('patch', secrets), { after: away })
    expect(await bed.answer(codeOf(bed.endpoints.roll(id, KEEP, {})))).toBe('unavailable')
    expect(await bed.keysOf(id)).toHaveLength(2)
    const { secret } = await bed.answer(bed.endpoints.roll(id, KEEP, {}))
    expect((await bed.keysOf(id)).map((key) => key.secret)).toEqual([secret, first])
  })

  test('that is under way keeps its secret in force while others roll', async () => {
    const bed = new EndpointsBed()
    const { secret: first, ...id } = await bed.make()
    bed.away = true
    const slow = bed.endpoints.roll(id, KEEP, {})
    for (let turn = 0; turn < 20; turn += 1) await bed.turn()
    const other = bed.endpoints.roll(id, KEEP, {})
    for (let turn = 0; turn < 20; turn += 1) await bed.turn()
    bed.away = false
    const rolled = await bed.answer(Promise.all([slow, other]))
    expect((await bed.keysOf(id)).map((key) => key.secret)).toEqual([
      rolled[1]?.secret,
      rolled[0]?.secret,
      first,
    ])
  })

  test('that ended the old secrets says so when nobody acknowledges it', async () => {
    const bed = new EndpointsBed()
    const { secret: _, ...id } = await bed.make()
    bed.away = true
    const refusal = bed.endpoints.roll(id, EXPIRE, {}).catch((error: unknown) => error)
    await bed.late(refusal)
    expect(await refusal).toMatchObject({
      code: 'not_acknowledged',
      retryAfter: expect.any(Number),
      detail: expect.stringMatching(/stored.*does not contain it.*have expired.*Repeat/),
    })
  })
})

describe('a roll under a key', () => {
  const how = { idempotencyKey: 'roll-1' }

  test('that nobody acknowledged is waited for by its repeat, which has the secret that nobody was shown', async () => {
    const bed = new EndpointsBed()
    const { secret: first, ...id } = await bed.make()
    bed.away = true
    expect(await bed.late(bed.endpoints.roll(id, KEEP, how))).toBe('not_acknowledged')
    expect(await bed.late(bed.endpoints.roll(id, KEEP, how))).toBe('not_acknowledged')
    bed.away = false
    const repeat = await bed.answer(bed.endpoints.roll(id, KEEP, how))
    expect(repeat).toEqual({ secret: expect.any(String), overlapSeconds: 86_400, replayed: false })
    expect((await bed.keysOf(id)).map(({ secret }) => secret)).toEqual([repeat.secret, first])
    expect(await bed.answer(bed.endpoints.roll(id, KEEP, how))).toEqual({
      overlapSeconds: 86_400,
      replayed: true,
    })
    // It was shown: the next roll leaves it in force.
    await bed.answer(bed.endpoints.roll(id, KEEP, {}))
    expect((await bed.keysOf(id)).map(({ secret }) => secret)).toContain(repeat.secret)
  })

  test('that failed before it made anything is made by its repeat, which has the secret', async () => {
    const bed = new EndpointsBed()
    const { secret: first, ...id } = await bed.make()
    bed.api.fail(calling('patch', secrets), { before: away })
    expect(await bed.answer(codeOf(bed.endpoints.roll(id, KEEP, how)))).toBe('unavailable')
    const repeat = await bed.answer(bed.endpoints.roll(id, KEEP, how))
    expect(repeat).toEqual({ secret: expect.any(String), overlapSeconds: 86_400, replayed: false })
    expect((await bed.keysOf(id)).map(({ secret }) => secret)).toEqual([repeat.secret, first])
  })

  test('that failed shows its secret to one of two who repeat it at a time', async () => {
    const bed = new EndpointsBed()
    const { secret: _, ...id } = await bed.make()
    bed.away = true
    await bed.late(bed.endpoints.roll(id, KEEP, how))
    bed.away = false
    const repeats = Promise.all([bed.endpoints.roll(id, KEEP, how), bed.endpoints.roll(id, KEEP, how)])
    expect((await bed.answer(repeats)).filter(({ secret }) => secret !== undefined)).toHaveLength(1)
  })

  test('that is refused uses up no key', async () => {
    const bed = new EndpointsBed()
    const { secret: _, ...id } = await bed.make()
    for (let roll = 0; roll < 4; roll += 1) await bed.answer(bed.endpoints.roll(id, KEEP, {}))
    expect(await bed.answer(codeOf(bed.endpoints.roll(id, KEEP, how)))).toBe('too_many_secrets')
    const nobody = { ...id, endpointId: 'whe_nobody' }
    expect(await bed.answer(codeOf(bed.endpoints.roll(nobody, KEEP, how)))).toBe('not_found')
    expect(bed.log.stored()).toEqual([])
    expect(await bed.answer(bed.endpoints.roll(id, EXPIRE, how))).toMatchObject({ replayed: false })
  })
})

test('what waits for an endpoint that has gone meanwhile hears so at once', async () => {
  const bed = new EndpointsBed()
  const { secret: _, ...id } = await bed.make()
  const [raw] = bed.store.all(webhookEndpoints)
  let go: () => void = () => undefined
  const hold = new Promise<void>((resolve) => {
    go = resolve
  })
  bed.api.fail(calling('patch', webhookEndpoints), { hold })
  const answer = codeOf(bed.endpoints.change(id, { description: 'late' }, {}))
  await settle()
  bed.directory.remove(webhookEndpoint.parse(raw))
  bed.away = true
  go()
  await settle(20)
  // No time has passed.
  expect(await answer).toBe('not_found')
  expect(bed.directory.inNamespace('acme')).toEqual([])
})
