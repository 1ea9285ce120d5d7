import { GetParameterCommand, PutParameterCommand, type SSMClient } from '@aws-sdk/client-ssm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AwsBed, startAwsBed } from '../../test/support/aws/bed.ts'

const CANARY = 'canary-"ä\\-%41'
const NAME = '/davit/acme/rc_x'

let bed: AwsBed
let ssm: SSMClient
beforeEach(async () => {
  bed = await startAwsBed()
  ssm = bed.ssm(await bed.assume())
})
afterEach(() => bed.stop())

const received = () => Buffer.concat([...bed.aws.received.all()])
/** Escaped as in JSON. */
const written = Buffer.from(JSON.stringify(CANARY).slice(1, -1))

describe('what was received', () => {
  it('is every byte, but for the value that is stored', async () => {
    await ssm.send(
      new PutParameterCommand({ Name: NAME, Value: CANARY, Type: 'SecureString', Description: 'a place' }),
    )
    const bytes = received()
    expect(bytes.includes(written)).toBe(false)
    for (const text of [
      NAME,
      'a place',
      '"Value":"[stored]"',
      'X-Amz-Target: AmazonSSM.PutParameter',
      'davit-acme',
    ])
      expect(bytes.toString('latin1').toLowerCase()).toContain(text.toLowerCase())
  })

  it('shows a secret that is anywhere else', async () => {
    await ssm.send(
      new PutParameterCommand({ Name: NAME, Value: CANARY, Type: 'SecureString', Description: CANARY }),
    )
    expect(received().includes(written)).toBe(true)
  })

  it('shows a secret of a call that was refused', async () => {
    await expect(ssm.send(new GetParameterCommand({ Name: CANARY }))).rejects.toThrow()
    expect(received().includes(written)).toBe(true)
  })

  it('is told as it comes', async () => {
    let count = 0
    const stop = bed.aws.received.watch(() => {
      count += 1
    })
    await ssm.send(new GetParameterCommand({ Name: NAME })).catch(() => undefined)
    stop()
    await ssm.send(new GetParameterCommand({ Name: NAME })).catch(() => undefined)
    expect(count).toBe(1)
  })
})

describe('the log', () => {
  it('never has a value', async () => {
    await ssm.send(new PutParameterCommand({ Name: NAME, Value: CANARY, Type: 'SecureString' }))
    const again = new PutParameterCommand({ Name: NAME, Value: CANARY, Type: 'SecureString' })
    await expect(ssm.send(again)).rejects.toThrow()
    await ssm.send(new GetParameterCommand({ Name: NAME, WithDecryption: true }))
    expect(JSON.stringify(bed.aws.trail.entries())).not.toContain('canary')
  })
})

describe('what the double does not know', () => {
  it('is said aloud, and kept', async () => {
    const put = { Name: NAME, Value: 'v', Type: 'String' as const }
    await expect(ssm.send(new PutParameterCommand({ ...put, AllowedPattern: '.*' }))).rejects.toMatchObject({
      name: 'NotInTheDouble',
      message: 'the member AllowedPattern',
      $metadata: { httpStatusCode: 501 },
    })
    expect(bed.aws.defects.map(({ message }) => message)).toEqual(['the member AllowedPattern'])
  })
})
