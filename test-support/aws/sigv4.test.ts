/** Invalid requests, signed by the library that the SDK uses. */
import { request as httpRequest } from 'node:http'
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, type SdkCredentials, startAwsBed } from '../../test/support/aws/bed.ts'

const MINUTE_MS = 60_000
const BODY = '{"Name":"/davit/acme/rc_x"}'
const FORM = 'Action=GetCallerIdentity&Version=2011-06-15'

type Sent = { headers: Record<string, string>; body: string }
type Asked = {
  service?: string
  scope?: string
  region?: string
  host?: string
  /** Relative to the emulator's time. */
  atMs?: number
  credentials?: Partial<SdkCredentials>
  /** Modifies the request after it was signed. */
  tampered?: (sent: Sent) => void
}

let bed: AwsBed
let session: SdkCredentials

beforeAll(async () => {
  bed = await startAwsBed()
  session = await bed.assume()
})
afterAll(() => bed.stop())

async function ask(asked: Asked): Promise<{ status: number; code: string }> {
  const { service = 'ssm', region = REGION, atMs = 0 } = asked
  const isForm = service === 'sts'
  const host = asked.host ?? new URL(bed.aws.url).host
  const signer = new SignatureV4({
    service: asked.scope ?? service,
    region,
    credentials: { ...session, ...asked.credentials },
    sha256: Sha256,
  })
  const body = isForm ? FORM : BODY
  const headers = isForm
    ? { host, 'content-type': 'application/x-www-form-urlencoded' }
    : { host, 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': 'AmazonSSM.GetParameter' }
  const signed = await signer.sign(
    { method: 'POST', protocol: 'http:', hostname: host, path: '/', headers, body },
    { signingDate: new Date(bed.clock.now() + atMs) },
  )
  const sent = { headers: signed.headers, body }
  asked.tampered?.(sent)
  return send(sent)
}

/** Does not use fetch, which writes the Host header itself. */
function send({ headers, body }: Sent): Promise<{ status: number; code: string }> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(bed.aws.url, { method: 'POST', headers }, (response) => {
      let text = ''
      response.on('data', (chunk) => (text += chunk))
      response.on('end', () => {
        const code = /"__type":"(?:[^"]*#)?([^"]+)"|<Code>([^<]+)</.exec(text)?.slice(1).find(Boolean) ?? ''
        resolve({ status: response.statusCode ?? 0, code })
      })
    })
    request.on('error', reject).end(body)
  })
}

const without = (name: string) => (sent: Sent) => {
  delete sent.headers[name]
}

const SSM: readonly (Asked & { name: string; want: string })[] = [
  { name: 'as it should be', want: 'ParameterNotFound' },
  {
    name: 'whose body was changed',
    tampered: (sent) => (sent.body = `${BODY} `),
    want: 'InvalidSignatureException',
  },
  {
    name: 'whose body and declared hash were changed',
    tampered: (sent) => {
      sent.body = `${BODY} `
      sent.headers['x-amz-content-sha256'] = '0'.repeat(64)
    },
    want: 'InvalidSignatureException',
  },
  {
    name: 'whose operation was changed',
    tampered: (sent) => (sent.headers['x-amz-target'] = 'AmazonSSM.DeleteParameter'),
    want: 'InvalidSignatureException',
  },
  { name: 'by another secret', credentials: { secretAccessKey: 'x' }, want: 'InvalidSignatureException' },
  { name: 'for another service', scope: 'sts', want: 'InvalidSignatureException' },
  { name: 'for a region that there is not', region: 'eu-central-9x', want: 'InvalidSignatureException' },
  { name: 'for a region of another partition', region: 'cn-north-1', want: 'UnrecognizedClientException' },
  { name: 'to the endpoint of its region', host: `ssm.${REGION}.amazonaws.com`, want: 'ParameterNotFound' },
  {
    name: 'to the FIPS endpoint',
    region: 'us-east-1',
    host: 'ssm-fips.us-east-1.amazonaws.com',
    want: 'ParameterNotFound',
  },
  { name: 'to the dual-stack endpoint', host: `ssm.${REGION}.api.aws`, want: 'ParameterNotFound' },
  {
    name: 'to the endpoint of another region',
    host: 'ssm.us-east-1.amazonaws.com',
    want: 'InvalidSignatureException',
  },
  {
    name: 'to the endpoint of another service',
    host: `kms.${REGION}.amazonaws.com`,
    want: 'InvalidSignatureException',
  },
  { name: 'of five minutes ago', atMs: -5 * MINUTE_MS, want: 'ParameterNotFound' },
  { name: 'of more than five minutes ago', atMs: -5 * MINUTE_MS - 1_000, want: 'InvalidSignatureException' },
  { name: 'of more than five minutes ahead', atMs: 5 * MINUTE_MS + 1_000, want: 'InvalidSignatureException' },
  {
    name: 'without a signature',
    tampered: without('authorization'),
    want: 'MissingAuthenticationTokenException',
  },
  { name: 'without a date', tampered: without('x-amz-date'), want: 'IncompleteSignatureException' },
  {
    name: 'with a date of another day than its scope',
    tampered: (sent) => (sent.headers['x-amz-date'] = '20260130T120000Z'),
    want: 'InvalidSignatureException',
  },
  {
    name: 'of another algorithm',
    tampered: (sent) =>
      (sent.headers.authorization = sent.headers.authorization?.replace('AWS4-HMAC-SHA256', 'AWS4') ?? ''),
    want: 'IncompleteSignatureException',
  },
  {
    name: 'with a header of AWS that is not signed',
    tampered: (sent) => (sent.headers['x-amz-more'] = '1'),
    want: 'IncompleteSignatureException',
  },
  {
    name: 'that leaves a signed header out',
    tampered: without('x-amz-target'),
    // The service can no longer be determined, so the answer uses the query protocol.
    want: 'SignatureDoesNotMatch',
  },
  {
    name: 'without the session token',
    tampered: without('x-amz-security-token'),
    want: 'UnrecognizedClientException',
  },
  {
    name: 'with a session token of others',
    credentials: { sessionToken: 'x' },
    want: 'UnrecognizedClientException',
  },
  {
    name: 'by nobody',
    credentials: { accessKeyId: 'ASIAQQQQQQQQQQQQQQQQ' },
    want: 'UnrecognizedClientException',
  },
]

const STS: readonly (Asked & { name: string; want: string; status: number })[] = [
  { name: 'as it should be', want: '', status: 200 },
  {
    name: 'whose body was changed',
    tampered: (sent) => (sent.body += '&a=b'),
    want: 'SignatureDoesNotMatch',
    status: 403,
  },
  { name: 'of fifteen minutes ago', atMs: -15 * MINUTE_MS, want: '', status: 200 },
  {
    name: 'of more than fifteen minutes ago',
    atMs: -15 * MINUTE_MS - 1_000,
    want: 'SignatureDoesNotMatch',
    status: 403,
  },
  {
    name: 'by nobody',
    credentials: { accessKeyId: 'ASIAQQQQQQQQQQQQQQQQ' },
    want: 'InvalidClientTokenId',
    status: 403,
  },
  {
    name: 'to the global endpoint from elsewhere',
    host: 'sts.amazonaws.com',
    want: 'SignatureDoesNotMatch',
    status: 403,
  },
  { name: 'to the global endpoint', region: 'us-east-1', host: 'sts.amazonaws.com', want: '', status: 200 },
]

describe('a request', () => {
  for (const { name, want, ...asked } of SSM)
    it(`to SSM ${name}: ${want}`, async () => {
      expect((await ask(asked)).code).toBe(want)
    })

  for (const { name, want, status, ...asked } of STS)
    it(`to STS ${name}: ${want || 'taken'}`, async () => {
      expect(await ask({ service: 'sts', ...asked })).toEqual({ status, code: want })
    })

  it('of a session that has ended is refused as such', async () => {
    session = await bed.assume({ DurationSeconds: 900 })
    bed.clock.advance(900_000 - 1_000)
    expect((await ask({})).code).toBe('ParameterNotFound')
    bed.clock.advance(1_000)
    expect((await ask({})).code).toBe('ExpiredTokenException')
    expect(await ask({ service: 'sts' })).toEqual({ status: 403, code: 'ExpiredToken' })
  })
})

describe('a server', () => {
  it('takes no body over a mebibyte', async () => {
    const body = 'x'.repeat(1024 * 1024 + 1)
    expect((await fetch(bed.aws.url, { method: 'POST', body })).status).toBe(413)
  })

  it('knows one address only', async () => {
    expect((await fetch(`${bed.aws.url}/x`, { method: 'POST' })).status).toBe(404)
    expect((await fetch(bed.aws.url)).status).toBe(404)
  })
})
