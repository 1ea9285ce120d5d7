import {
  DescribeParametersCommand,
  GetParameterCommand,
  PutParameterCommand,
  type SSMClient,
} from '@aws-sdk/client-ssm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, startAwsBed } from '../../test/support/aws/bed.ts'
import { DEFAULT_RATES } from './rates.ts'
import type { FaultEffect } from './script.ts'

const NAME = '/davit/acme/rc_x'
const put = (Name = NAME, Value = 'v') =>
  new PutParameterCommand({ Name, Value, Type: 'String', Overwrite: true })
const get = () => new GetParameterCommand({ Name: NAME })

let bed: AwsBed
let ssm: SSMClient
beforeEach(async () => {
  bed = await startAwsBed()
  ssm = bed.ssm(await bed.assume())
})
afterEach(() => bed.stop())

const stored = () => bed.organization.account.parameters(REGION).value(NAME)
const failing = (effect: FaultEffect) => bed.aws.script.add({ operation: 'ssm:PutParameter', effect })

describe('a call that is made to fail', () => {
  it('is refused with the error that was said, so many times', async () => {
    const effect = { code: 'TooManyUpdates', message: 'later' }
    const fault = bed.aws.script.add({ operation: 'ssm:PutParameter', effect, times: 2 })
    for (let time = 0; time < 2; time += 1)
      await expect(ssm.send(put())).rejects.toMatchObject({ name: 'TooManyUpdates', message: 'later' })
    expect(stored()).toBeUndefined()
    await ssm.send(put())
    expect([stored(), fault.used]).toEqual(['v', 2])
    expect(bed.aws.trail.entries({ operation: 'PutParameter' }).map(({ error }) => error?.code)).toEqual([
      'TooManyUpdates',
      'TooManyUpdates',
      undefined,
    ])
  })

  it('is throttled as each protocol says it', async () => {
    bed.aws.script.add({ operation: '*', effect: 'throttle', times: 2 })
    await expect(ssm.send(put())).rejects.toMatchObject({ name: 'ThrottlingException' })
    await expect(bed.assume()).rejects.toMatchObject({ name: 'Throttling' })
  })

  it('finds nobody there', async () => {
    failing('unavailable')
    await expect(ssm.send(put())).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } })
  })

  it('is cut off before or after its effect', async () => {
    failing('cut-before')
    await expect(ssm.send(put())).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(stored()).toBeUndefined()
    failing('cut-after')
    await expect(ssm.send(put())).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(stored()).toBe('v')
  })

  it('is of the account and the kind that was meant, until it is taken back', async () => {
    const { script } = bed.aws
    script.add({ operation: 'ssm:*', account: '333333333333', effect: 'throttle' })
    const named = script.add({
      operation: 'ssm:*',
      where: ({ session, parameters }) =>
        session?.name === 'davit-acme' && parameters.Name === '/davit/acme/rc_y',
      effect: 'throttle',
      times: Number.POSITIVE_INFINITY,
    })
    await ssm.send(put())
    await expect(ssm.send(put('/davit/acme/rc_y'))).rejects.toMatchObject({ name: 'ThrottlingException' })
    named.remove()
    await ssm.send(put('/davit/acme/rc_y'))
  })
})

describe('a call that takes its time', () => {
  it('ends when the clock says so, and lets no other change the same', async () => {
    failing({ latencyMs: 1_000 })
    const slow = ssm.send(put(NAME, 'slow'))
    await expect.poll(() => bed.clock.pending).toBe(1)
    await expect(ssm.send(put(NAME, 'fast'))).rejects.toMatchObject({ name: 'TooManyUpdates' })
    await ssm.send(put('/davit/acme/rc_y'))
    bed.clock.advance(999)
    expect(stored()).toBeUndefined()
    bed.clock.advance(1)
    await slow
    expect(stored()).toBe('slow')
  })
})

describe('a read that lags', () => {
  it('sees what was there before', async () => {
    const { script } = bed.aws
    const lag = script.lag({ operation: 'ssm:GetParameter', ms: 5_000 })
    await ssm.send(put(NAME, 'one'))
    await expect(ssm.send(get())).rejects.toMatchObject({ name: 'ParameterNotFound' })
    bed.clock.advance(5_000)
    expect((await ssm.send(get())).Parameter?.Value).toBe('one')
    await ssm.send(put(NAME, 'two'))
    bed.clock.advance(1_000)
    await ssm.send(put(NAME, 'three'))
    expect((await ssm.send(get())).Parameter).toMatchObject({ Value: 'one', Version: 1 })
    bed.clock.advance(4_000)
    expect((await ssm.send(get())).Parameter).toMatchObject({ Value: 'two', Version: 2 })
    lag.remove()
    expect((await ssm.send(get())).Parameter).toMatchObject({ Value: 'three', Version: 3 })
  })

  it('lists what is deleted, and not what is new', async () => {
    const store = bed.organization.account.parameters(REGION)
    await ssm.send(put())
    bed.clock.advance(10_000)
    store.delete(NAME, bed.clock.now())
    await ssm.send(put('/davit/acme/rc_y'))
    bed.aws.script.lag({ operation: 'ssm:DescribeParameters', ms: 5_000 })
    const listed = async () =>
      (await ssm.send(new DescribeParametersCommand({}))).Parameters?.map(({ Name }) => Name)
    expect(await listed()).toEqual([NAME])
    bed.clock.advance(5_000)
    expect(await listed()).toEqual(['/davit/acme/rc_y'])
  })
})

describe('pages that are short', () => {
  it('hold nothing or little, and all in the end', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `/davit/acme/rc_${index}`)
    for (const name of names) await ssm.send(put(name))
    bed.aws.script.shortenPages({ operation: 'ssm:DescribeParameters' })
    const pages: string[][] = []
    let NextToken: string | undefined
    do {
      const page = await ssm.send(
        new DescribeParametersCommand({ MaxResults: 4, ...(NextToken && { NextToken }) }),
      )
      pages.push(page.Parameters?.map(({ Name = '' }) => Name) ?? [])
      NextToken = page.NextToken
    } while (NextToken && pages.length < 20)
    expect(pages.map((page) => page.length)).toEqual([0, 2, 0, 2, 0, 2, 0, 1])
    expect(pages.flat()).toEqual(names)
  })
})

describe('a rate', () => {
  it('is that of an account, a region and a family of calls', async () => {
    bed.aws.limits.set({ puts: { perSecond: 3, burst: 3 } })
    for (let time = 0; time < 3; time += 1) await ssm.send(put())
    await expect(ssm.send(put())).rejects.toMatchObject({
      name: 'ThrottlingException',
      message: 'Rate exceeded',
    })
    await ssm.send(get())
    await bed.ssm(await bed.assume(), 'us-east-1').send(put())
    bed.clock.advance(334)
    await ssm.send(put())
    await expect(ssm.send(put())).rejects.toMatchObject({ name: 'ThrottlingException' })
  })

  it('is that of AWS unless said', async () => {
    await bed.stop()
    bed = await startAwsBed({ rates: DEFAULT_RATES })
    ssm = bed.ssm(await bed.assume())
    for (let time = 0; time < 3; time += 1) await ssm.send(put())
    await expect(ssm.send(put())).rejects.toMatchObject({ name: 'ThrottlingException' })
  })
})
