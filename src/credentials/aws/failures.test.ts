import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AccountsBed, parameter, startAccountsBed } from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { nastySecret, traceOf } from '../../../test/support/aws/nasty-secrets.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { SecretText } from '../../lib/redact.ts'
import { ERROR_TABLE, MAX_ATTEMPTS } from './errors.ts'

const NAME = '/davit/acme/rc_one'

let bed: AccountsBed

beforeEach(async () => {
  bed = await startAccountsBed()
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const create = (limits = {}, value?: string) =>
  bed.clock.rush(bed.cloud.create(bed.access('acme'), parameter(NAME, value), limits))
const codes = () => bed.counted.codesOf('ssm:PutParameter')

/** What the adapter says itself is no answer of a server. */
const OWN = new Set([
  'Unreachable',
  'TimedOut',
  'UnreadableResponse',
  'Canceled',
  'Busy',
  'NoIdentity',
  'Failed',
])
const SAID = [...ERROR_TABLE].filter(([code]) => !OWN.has(code))

describe('an error of Parameter Store', () => {
  it.each(SAID)('%s is told and repeated as the table says', async (code, { remedy, again }) => {
    const message = `What AWS says of ${code} (Request ID: 12ab-34)`
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: { code, message, status: 400 }, times: 20 })
    const error = await failureOf(create())
    expect(error).toMatchObject({ remedy, code, operation: 'ssm:PutParameter', unsure: false })
    expect(error.message).toBe(`What AWS says of ${code}`)
    const attempts = again === undefined ? 1 : again === 'session' ? 2 : MAX_ATTEMPTS
    expect(codes()).toEqual(Array(attempts).fill(code))
  })

  it.each([
    [400, 'spec', 1],
    [403, 'permissions', 1],
    [429, 'retry', MAX_ATTEMPTS],
    [500, 'retry', MAX_ATTEMPTS],
  ] as const)('that nobody knows is judged by its status %i', async (status, remedy, attempts) => {
    const effect = { code: 'SomethingNewException', message: 'new', status }
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect, times: 20 })
    const error = await failureOf(create())
    expect(error).toMatchObject({ remedy, code: 'SomethingNewException', unsure: status >= 500 })
    expect(codes()).toEqual(Array(attempts).fill('other'))
  })
})

describe('an error of STS', () => {
  it.each([
    ['MalformedPolicyDocument', 'spec', 'MalformedPolicyDocumentException'],
    ['PackedPolicyTooLarge', 'spec', 'PackedPolicyTooLargeException'],
    ['RegionDisabledException', 'permissions', 'RegionDisabledException'],
    ['AccessDenied', 'permissions', 'AccessDenied'],
    ['ValidationError', 'spec', 'ValidationError'],
    ['Throttling', 'retry', 'Throttling'],
  ])('%s is told as the table says', async (code, remedy, told) => {
    const effect = { code, message: 'no', status: 400 }
    bed.aws.script.add({ operation: 'sts:AssumeRole', effect, times: 20 })
    expect(await failureOf(create())).toMatchObject({
      remedy,
      code: told,
      operation: 'sts:AssumeRole',
      message: 'no',
    })
    expect(codes()).toEqual([])
  })
})

describe('a service that is slow or away', () => {
  it('is waited for as long as the deadline allows', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: { latencyMs: 4000 } })
    expect(await create()).toEqual({ version: 1 })
  })

  it('is given up at the deadline, and nobody knows what became of it', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: { latencyMs: 4000 } })
    const error = await failureOf(create({ deadlineMs: 1000 }))
    expect(error).toMatchObject({ code: 'TimedOut', remedy: 'retry', unsure: true })
  })

  it('is given up when the caller leaves', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: { latencyMs: 4000 } })
    await bed.clock.rush(bed.cloud.identify(bed.access('acme')))
    const leaving = new AbortController()
    const work = failureOf(bed.cloud.create(bed.access('acme'), parameter(NAME), { signal: leaving.signal }))
    while (bed.clock.pending < 2) await bed.clock.elapse(0)
    leaving.abort()
    expect(await work).toMatchObject({ code: 'Canceled', remedy: 'retry' })
  })

  it('does not begin what the caller has left already', async () => {
    const error = await failureOf(create({ signal: AbortSignal.abort() }))
    expect(error).toMatchObject({ code: 'Canceled', unsure: false })
    expect(bed.aws.trail.entries()).toEqual([])
  })

  it('does not begin an attempt that the deadline leaves no time for', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'throttle', times: 20 })
    const error = await failureOf(create({ deadlineMs: 700 }))
    expect(error).toMatchObject({ code: 'ThrottlingException', remedy: 'retry' })
    expect(codes()).toHaveLength(2)
  })

  it('is unreachable when nobody listens, and nothing has come of it', async () => {
    await bed.clock.rush(bed.cloud.identify(bed.access('acme')))
    process.env.AWS_ENDPOINT_URL_SSM = 'http://127.0.0.1:1'
    const error = await failureOf(create())
    delete process.env.AWS_ENDPOINT_URL_SSM
    expect(error).toMatchObject({ code: 'Unreachable', remedy: 'retry', unsure: false })
    expect(error.message).toBe('ECONNREFUSED')
    expect(codes()).toHaveLength(MAX_ATTEMPTS)
  })
})

describe('turns', () => {
  it('are taken again for each attempt', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'throttle', times: 2 })
    await create()
    expect(bed.counted.turns).toHaveLength(3)
  })

  it('come slower after the account has complained', async () => {
    await bed.stop()
    bed = await startAccountsBed({ writes: { perSecond: 1, burst: 1 } })
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'throttle' })
    await create()
    expect(bed.counted.turns.at(-1)).toBeGreaterThan(0.7)
  })

  it('are waited for no longer than the caller says', async () => {
    await bed.stop()
    bed = await startAccountsBed({ writes: { perSecond: 0.1, burst: 1 } })
    await create()
    const late = bed.cloud.create(bed.access('acme'), parameter('/davit/acme/rc_two'), { turnMs: 3000 })
    const error = await failureOf(bed.clock.rush(late))
    expect(error).toMatchObject({ code: 'Busy', remedy: 'retry', unsure: false })
    expect(codes()).toEqual(['ok'])
  })

  it('are refused when too many wait', async () => {
    await bed.stop()
    bed = await startAccountsBed({ writes: { perSecond: 0.1, burst: 1, maxWaiting: 0 } })
    await create()
    expect(await failureOf(create())).toMatchObject({ code: 'Busy', remedy: 'retry' })
  })

  it('do not count against the deadline', async () => {
    await bed.stop()
    bed = await startAccountsBed({ writes: { perSecond: 0.3, burst: 1 } })
    await create()
    const late = bed.cloud.create(bed.access('acme'), parameter('/davit/acme/rc_two'), { deadlineMs: 1000 })
    expect(await bed.clock.rush(late)).toEqual({ version: 1 })
  })
})

describe('a secret that a service repeats', () => {
  it('is in no error, in none of the forms that it has', async () => {
    const secrets = fc.sample(nastySecret, { numRuns: 200, seed: 5 })
    for (const secret of secrets) {
      const forms = [
        secret,
        JSON.stringify(secret),
        encodeURIComponent(secret),
        Buffer.from(secret).toString('base64'),
      ]
      for (const said of forms) {
        const effect = {
          code: 'ValidationException',
          message: `Value '${said}' at 'value' is wrong`,
          status: 400,
        }
        bed.aws.script.add({ operation: 'ssm:PutParameter', effect })
        const work = bed.cloud.create(bed.access('acme'), {
          ...parameter(NAME),
          value: new SecretText(secret),
        })
        const error = await failureOf(bed.clock.rush(work))
        expect(
          traceOf(secret, [inspect(error, { depth: 9, showHidden: true }), error.stack ?? '']),
        ).toBeUndefined()
        expect(traceOf(secret, [JSON.stringify(error), String(error.cause)])).toBeUndefined()
      }
    }
    const counted = JSON.stringify([bed.counted.calls, bed.counted.retries])
    expect(secrets.map((secret) => traceOf(secret, [counted])).filter(Boolean)).toEqual([])
  })

  it('is not the code of an error either', async () => {
    const effect = { code: 'CorrectHorseBattery', message: 'no', status: 400 }
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect })
    expect(await failureOf(create({}, 'CorrectHorseBattery'))).toMatchObject({
      code: 'Unknown',
      message: 'no',
    })
  })

  it('is found by the test when an error does have it', () => {
    expect(traceOf('a-secret-value', ['here is a-secret-value'])).toBe('a-secret-value')
    expect(
      traceOf('a-secret-value', [`here is ${Buffer.from('a-secret-value').toString('base64')}`]),
    ).toBeDefined()
  })
})
