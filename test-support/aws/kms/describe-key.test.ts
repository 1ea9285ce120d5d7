/** Sends requests without the SDK's client, which nothing else needs. */
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'
import { afterEach, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, startAwsBed } from '../../../test/support/aws/bed.ts'

let bed: AwsBed
afterEach(() => bed.stop())

async function ask(KeyId: string): Promise<{ status: number; answer: Record<string, unknown> }> {
  const { host } = new URL(bed.aws.url)
  const body = JSON.stringify({ KeyId })
  const credentials = await bed.assume()
  const signer = new SignatureV4({ service: 'kms', region: REGION, credentials, sha256: Sha256 })
  const headers = {
    host,
    'content-type': 'application/x-amz-json-1.1',
    'x-amz-target': 'TrentService.DescribeKey',
  }
  const request = { method: 'POST', protocol: 'http:', hostname: host, path: '/', headers, body }
  const signed = await signer.sign(request, { signingDate: new Date(bed.clock.now()) })
  const response = await fetch(bed.aws.url, { method: 'POST', headers: signed.headers, body })
  return { status: response.status, answer: (await response.json()) as Record<string, unknown> }
}

describe('DescribeKey', () => {
  it('says what a key is and whether it can be used', async () => {
    bed = await startAwsBed()
    const key = bed.organization.account.keys(REGION).add({ alias: 'alias/mine' })
    key.state = 'Disabled'
    expect(await ask('alias/mine')).toMatchObject({
      status: 200,
      answer: { KeyMetadata: { Arn: key.arn, Enabled: false, KeyState: 'Disabled', KeyManager: 'CUSTOMER' } },
    })
    expect(await ask('alias/aws/ssm')).toMatchObject({ answer: { KeyMetadata: { KeyManager: 'AWS' } } })
    expect(await ask('alias/none')).toMatchObject({ status: 400, answer: { __type: 'NotFoundException' } })
  })

  it('asks the policies first', async () => {
    const Statement = { Effect: 'Allow', Action: 'kms:Encrypt', Resource: '*' }
    bed = await startAwsBed({ policy: { Version: '2012-10-17', Statement } })
    bed.organization.account.keys(REGION).add({ alias: 'alias/mine' })
    expect(await ask('alias/mine')).toMatchObject({
      status: 400,
      answer: { __type: 'AccessDeniedException' },
    })
  })
})
