import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AccountsBed,
  parameter,
  REGION,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { SecretText } from '../../lib/redact.ts'

const NAME = '/davit/acme/rc_one'
const OTHER = '/davit/acme/rc_two'

let bed: AccountsBed

beforeEach(async () => {
  bed = await startAccountsBed()
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const store = () => bed.account.parameters(REGION)
const create = (name = NAME, value?: string) =>
  bed.clock.rush(bed.cloud.create(bed.access('acme'), parameter(name, value)))
const replace = (value: string, name = NAME) =>
  bed.clock.rush(bed.cloud.replace(bed.access('acme'), name, new SecretText(value)))
const remove = (name = NAME) => bed.clock.rush(bed.cloud.remove(bed.access('acme'), name))
const puts = () => bed.aws.trail.entries({ operation: 'PutParameter' })

describe('what waits for its turn', () => {
  it('is removed before all that its own organization has to store', async () => {
    await bed.stop()
    bed = await startAccountsBed({ writes: { perSecond: 1, burst: 1 } })
    await create()
    const puts: Promise<unknown>[] = []
    const limits = { turnMs: 600_000 }
    const ended: string[] = []
    for (let n = 0; n < 10; n += 1) {
      const put = bed.cloud.create(bed.access('acme'), parameter(`${NAME}-${n}`), limits)
      puts.push(put.then(() => ended.push('stored')))
    }
    const removal = bed.cloud.remove(bed.access('acme'), NAME, limits).then(() => ended.push('removed'))
    await bed.clock.rush(Promise.all([...puts, removal]))
    expect(ended.indexOf('removed')).toBeLessThan(3)
  })
})

describe('create', () => {
  it('makes a secure string of the standard tier, with its tags, in one call', async () => {
    expect(await create()).toEqual({ version: 1 })
    expect(store().value(NAME)).toBe('the-value-of-the-secret')
    expect(puts()).toHaveLength(1)
    expect(puts()[0]?.parameters).toMatchObject({
      Name: NAME,
      Type: 'SecureString',
      Tier: 'Standard',
      Overwrite: false,
      Description: 'Made by Davit',
      Tags: expect.arrayContaining([{ Key: 'davit.dev/installation', Value: 'here' }]),
    })
    expect(puts()[0]?.parameters).not.toHaveProperty('DataType')
    expect(puts()[0]?.parameters).not.toHaveProperty('KeyId')
  })

  it('puts it under the key of the organization', async () => {
    const key = bed.account.keys(REGION).add({ alias: 'alias/mine' })
    const access = bed.access('acme', { kmsKeyId: 'alias/mine' })
    await bed.clock.rush(bed.cloud.create(access, parameter(NAME)))
    expect(puts()[0]?.parameters).toMatchObject({ KeyId: 'alias/mine' })
    key.state = 'Disabled'
    const error = await failureOf(bed.clock.rush(bed.cloud.create(access, parameter(OTHER))))
    expect(error).toMatchObject({ code: 'InvalidKeyId', remedy: 'permissions' })
  })

  it('says so if there is one already, and changes nothing', async () => {
    await create()
    const error = await failureOf(create(NAME, 'another value'))
    expect(error).toMatchObject({ code: 'ParameterAlreadyExists', remedy: 'spec', unsure: false })
    expect(store().value(NAME)).toBe('the-value-of-the-secret')
  })

  it('has made it when the answer was lost', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    expect(await create()).toEqual({ version: 1 })
    expect(bed.counted.codesOf('ssm:PutParameter')).toEqual(['Unreachable', 'ParameterAlreadyExists'])
    expect(store().get(NAME)?.versions).toHaveLength(1)
  })

  it('makes it once more when the connection broke before it was made', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-before' })
    expect(await create()).toEqual({ version: 1 })
    expect(bed.counted.codesOf('ssm:PutParameter')).toEqual(['Unreachable', 'ok'])
  })

  it('does not take one for its own that was there before the connection broke', async () => {
    await create(NAME, 'the first value')
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-before' })
    const error = await failureOf(create(NAME, 'the second value'))
    expect(error).toMatchObject({ code: 'ParameterAlreadyExists', unsure: false })
    expect(store().value(NAME)).toBe('the first value')
  })

  it('says that nobody knows when one that is there cannot be asked whose it is', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    bed.aws.script.add({ operation: 'ssm:ListTagsForResource', effect: 'unavailable', times: 9 })
    expect(await failureOf(create())).toMatchObject({
      remedy: 'retry',
      operation: 'ssm:ListTagsForResource',
      unsure: true,
    })
    bed.aws.script.clear()
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    bed.aws.script.add({
      operation: 'ssm:ListTagsForResource',
      effect: { code: 'InvalidResourceId' },
      times: 9,
    })
    expect(await failureOf(create(OTHER))).toMatchObject({ code: 'ParameterAlreadyExists', unsure: true })
  })

  it('says that nobody knows when the answer was lost and then nothing else came', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'unavailable', times: 10 })
    const error = await failureOf(create())
    expect(error).toMatchObject({ remedy: 'retry', unsure: true, operation: 'ssm:PutParameter' })
  })

  it('is worth trying later while the name of one that was removed is not free', async () => {
    await create()
    await remove()
    const effect = { code: 'ParameterAlreadyExists', message: 'The parameter already exists.' }
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect, times: 20 })
    expect(await failureOf(create())).toMatchObject({ code: 'ParameterAlreadyExists', remedy: 'retry' })
    bed.aws.script.clear()
    await create()
    expect(await failureOf(create())).toMatchObject({ code: 'ParameterAlreadyExists', remedy: 'spec' })
  })

  it('is made again when the name of one that was removed is not free yet', async () => {
    await create()
    await remove()
    bed.aws.script.add({
      operation: 'ssm:PutParameter',
      effect: { code: 'ParameterAlreadyExists', message: 'The parameter already exists.' },
      times: 2,
    })
    expect(await create(NAME, 'anew')).toEqual({ version: 1 })
    expect(store().value(NAME)).toBe('anew')
  })
})

describe('replace', () => {
  it('writes a new version without tags', async () => {
    await create()
    expect(await replace('rotated')).toEqual({ version: 2 })
    expect(store().value(NAME)).toBe('rotated')
    expect(puts()[1]?.parameters).toMatchObject({ Overwrite: true, Type: 'SecureString', Tier: 'Standard' })
    expect(puts()[1]?.parameters.Tags ?? []).toEqual([])
  })

  it('tells the version that holds the value when an answer was lost', async () => {
    await create()
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    expect(await replace('rotated')).toEqual({ version: 3 })
    expect(store().value(NAME)).toBe('rotated')
  })

  it('leaves nothing behind when there was nothing to write over', async () => {
    const error = await failureOf(replace('rotated'))
    expect(error).toMatchObject({ code: 'ParameterNotFound', remedy: 'gone' })
    expect(store().list()).toEqual([])
    expect(bed.counted.codesOf('ssm:ListTagsForResource')).toEqual([])
  })

  it('leaves nothing behind when what it made does not show yet', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    bed.aws.script.add({ operation: 'ssm:DeleteParameter', effect: { code: 'ParameterNotFound' }, times: 2 })
    bed.aws.script.add({
      operation: 'ssm:ListTagsForResource',
      effect: { code: 'InvalidResourceId' },
      times: 9,
    })
    expect(await failureOf(replace('rotated'))).toMatchObject({ code: 'ParameterNotFound', remedy: 'gone' })
    expect(store().list()).toEqual([])
  })

  it('leaves nothing behind when there was nothing, and the first answer was lost', async () => {
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
    const error = await failureOf(replace('rotated'))
    expect(error).toMatchObject({ code: 'ParameterNotFound', remedy: 'gone' })
    expect(store().list()).toEqual([])
  })

  it('says that something may be left when it cannot be taken back', async () => {
    bed.aws.script.add({
      operation: 'ssm:DeleteParameter',
      effect: { code: 'AccessDeniedException' },
      times: 9,
    })
    expect(await failureOf(replace('rotated'))).toMatchObject({
      code: 'AccessDeniedException',
      operation: 'ssm:DeleteParameter',
      unsure: true,
    })
  })

  it('keeps what was there at version 1 when the first answer was lost before it had an effect', async () => {
    await create()
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-before' })
    expect(await replace('rotated')).toEqual({ version: 2 })
    expect(store().value(NAME)).toBe('rotated')
  })

  it('writes again when something else is being done to the parameter', async () => {
    await create()
    bed.aws.script.add({
      operation: 'ssm:PutParameter',
      effect: { code: 'TooManyUpdates', message: 'There are concurrent updates.' },
      times: 3,
    })
    expect(await replace('rotated')).toEqual({ version: 2 })
    expect(bed.counted.retries).toEqual(Array(3).fill(['ssm:PutParameter', 'TooManyUpdates']))
  })
})

describe('remove', () => {
  it('removes what is there, and says when nothing was', async () => {
    await create()
    expect(await remove()).toBe('deleted')
    expect(store().list()).toEqual([])
    expect(await remove()).toBe('not_found')
  })

  it('has removed it when the answer was lost', async () => {
    await create()
    bed.aws.script.add({ operation: 'ssm:DeleteParameter', effect: 'cut-after' })
    expect(await remove()).toBe('deleted')
    expect(bed.counted.codesOf('ssm:DeleteParameter')).toEqual(['Unreachable', 'ParameterNotFound'])
  })

  it('does not believe that one is gone which was made a moment ago', async () => {
    await create()
    bed.aws.script.add({ operation: 'ssm:DeleteParameter', effect: { code: 'ParameterNotFound' }, times: 2 })
    expect(await remove()).toBe('deleted')
    expect(store().list()).toEqual([])
  })
})
