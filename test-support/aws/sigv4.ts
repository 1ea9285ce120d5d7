/** Verifies Signature Version 4 like a service does. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'
import { AwsError } from './aws-error.ts'

/** The claims of a request's signature. */
export type Claim = {
  accessKeyId: string
  /** Date of the scope, `20260131`. */
  date: string
  region: string
  service: string
  signedHeaders: readonly string[]
  signature: string
  /** Milliseconds since 1970. */
  signedAt: number
  sessionToken: string | undefined
}

export type SignedRequest = { method: string; url: string; headers: IncomingHttpHeaders; body: Buffer }

const ALGORITHM = 'AWS4-HMAC-SHA256'
const CREDENTIAL = /^([A-Z0-9]{16,128})\/(\d{8})\/([a-z0-9-]+)\/([a-z0-9-]+)\/aws4_request$/
const AMZ_DATE = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/

/** @throws AwsError if a part of it is missing */
export function readClaim(headers: IncomingHttpHeaders): Claim {
  const authorization = headers.authorization
  if (authorization === undefined) throw AwsError.of('missing-token', 'Missing Authentication Token')
  const [algorithm, ...rest] = authorization.split(' ')
  if (algorithm !== ALGORITHM) throw incomplete(`Authorization header requires '${ALGORITHM}'.`)
  const parts = new Map(rest.join(' ').split(',').map(keyAndValue))
  const [credential, signed, signature] = ['Credential', 'SignedHeaders', 'Signature'].map((name) => {
    const value = parts.get(name)
    if (!value) throw incomplete(`Authorization header requires '${name}' parameter.`)
    return value
  }) as [string, string, string]
  const scope = CREDENTIAL.exec(credential)
  if (!scope) throw incomplete(`Credential must have exactly 5 slash-delimited elements.`)
  const [, accessKeyId = '', date = '', region = '', service = ''] = scope
  const sessionToken = headers['x-amz-security-token']
  return {
    accessKeyId,
    date,
    region,
    service,
    signedHeaders: signed.split(';'),
    signature,
    signedAt: timeOf(headers['x-amz-date'], date),
    sessionToken: typeof sessionToken === 'string' ? sessionToken : undefined,
  }
}

/** @throws AwsError unless the holder of the secret has signed exactly this request */
export async function checkSignature(claim: Claim, request: SignedRequest, secret: string): Promise<void> {
  checkSignedHeaders(claim, request)
  const hash = createHash('sha256').update(request.body).digest('hex')
  const declared = request.headers['x-amz-content-sha256']
  if (declared !== undefined && declared !== hash) throw mismatch()
  const expected = await signatureOf(claim, request, secret)
  const [given, wanted] = [Buffer.from(claim.signature), Buffer.from(expected)]
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw mismatch()
}

async function signatureOf(claim: Claim, request: SignedRequest, secret: string): Promise<string> {
  const signer = new SignatureV4({
    service: claim.service,
    region: claim.region,
    credentials: { accessKeyId: claim.accessKeyId, secretAccessKey: secret },
    sha256: Sha256,
    applyChecksum: false,
  })
  const url = new URL(request.url, 'http://host')
  const names = claim.signedHeaders
  const headers = Object.fromEntries(names.map((name) => [name, String(request.headers[name] ?? '')]))
  const query = Object.fromEntries(
    [...new Set(url.searchParams.keys())].map((key) => [key, url.searchParams.getAll(key)]),
  )
  const { headers: signed } = await signer.sign(
    {
      method: request.method,
      protocol: 'http:',
      hostname: 'host',
      path: url.pathname,
      query,
      headers,
      body: request.body,
    },
    { signingDate: new Date(claim.signedAt), signableHeaders: new Set(names) },
  )
  return /Signature=([0-9a-f]+)$/.exec(signed.authorization ?? '')?.[1] ?? ''
}

function checkSignedHeaders(claim: Claim, request: SignedRequest): void {
  const signed = new Set(claim.signedHeaders)
  const needed = Object.keys(request.headers).filter((name) => name === 'host' || name.startsWith('x-amz-'))
  const missing = needed.filter((name) => !signed.has(name))
  if (missing.length > 0) throw incomplete(`'${missing.join("', '")}' must be a signed header.`)
}

function timeOf(header: string | string[] | undefined, date: string): number {
  const match = AMZ_DATE.exec(String(header ?? ''))
  if (!match)
    throw incomplete(`Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.`)
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1).map(Number)
  if (!String(header).startsWith(date))
    throw AwsError.of(
      'signature',
      `Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.`,
    )
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

function keyAndValue(part: string): [string, string] {
  const at = part.indexOf('=')
  return at < 0 ? [part.trim(), ''] : [part.slice(0, at).trim(), part.slice(at + 1).trim()]
}

function incomplete(message: string): AwsError {
  return AwsError.of('incomplete-signature', message)
}

function mismatch(): AwsError {
  return AwsError.of(
    'signature',
    'The request signature we calculated does not match the signature you provided. ' +
      'Check your AWS Secret Access Key and signing method. Consult the service documentation for details.',
  )
}
