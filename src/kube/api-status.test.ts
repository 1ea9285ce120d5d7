import { describe, expect, it } from 'vitest'
import { apiErrorFromEvent, apiErrorFromResponse } from './client.ts'

/** As kube-apiserver 1.36 words them. */
const responses = [
  { code: 404, reason: 'NotFound', message: 'webhookendpoints.davit.dev "a" not found', want: 'NotFound' },
  {
    code: 409,
    reason: 'AlreadyExists',
    message: 'webhookendpoints.davit.dev "a" already exists',
    want: 'AlreadyExists',
  },
  { code: 409, reason: 'Conflict', message: 'the object has been modified', want: 'Conflict' },
  { code: 410, reason: 'Expired', message: 'The provided continue parameter is too old', want: 'Gone' },
  { code: 401, reason: 'Unauthorized', message: 'Unauthorized', want: 'Unauthorized' },
  { code: 403, reason: 'Forbidden', message: 'User "x" cannot list resource', want: 'Forbidden' },
  {
    code: 403,
    reason: 'Forbidden',
    message:
      'webhookdeliveries.davit.dev "a" is forbidden: exceeded quota: q, requested: count=1, used: 5, limited: 5',
    want: 'Quota',
  },
  {
    code: 403,
    reason: 'Forbidden',
    message: 'unable to create new content in namespace x because it is being terminated',
    details: {
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: 'namespace x is being terminated',
          field: 'metadata.namespace',
        },
      ],
    },
    want: 'Terminating',
  },
  {
    code: 403,
    reason: 'Forbidden',
    message: 'admission webhook "policy.example.com" denied the request: hosts outside of example.com',
    want: 'Invalid',
  },
  {
    code: 413,
    reason: 'RequestEntityTooLarge',
    message: 'Request entity too large: limit is 3145728',
    want: 'TooLarge',
  },
  { code: 422, reason: 'Invalid', message: 'spec.url: Invalid value', want: 'Invalid' },
  { code: 429, reason: 'TooManyRequests', message: 'too many requests', want: 'TooManyRequests' },
  { code: 400, reason: 'BadRequest', message: 'the object provided is unrecognized', want: 'BadRequest' },
  {
    code: 415,
    reason: 'UnsupportedMediaType',
    message: 'the body was in an unknown format',
    want: 'BadRequest',
  },
  { code: 500, message: 'etcdserver: mvcc: database space exceeded', want: 'NoSpace' },
  { code: 500, message: 'etcdserver: request is too large', want: 'TooLarge' },
  {
    code: 500,
    message: 'rpc error: code = ResourceExhausted desc = trying to send message larger than max',
    want: 'TooLarge',
  },
  { code: 500, reason: 'InternalError', message: 'something', want: 'Unavailable' },
  { code: 503, reason: 'ServiceUnavailable', message: 'no endpoints', want: 'Unavailable' },
  {
    code: 504,
    reason: 'Timeout',
    message: 'Too large resource version: 900, current: 100',
    details: { causes: [{ reason: 'ResourceVersionTooLarge' }] },
    want: 'Gone',
  },
]

describe('the error in a response', () => {
  it.each(responses)('of $code $message is $want', ({ want, ...status }) => {
    const error = apiErrorFromResponse(
      status.code,
      Buffer.from(JSON.stringify({ kind: 'Status', ...status })),
    )
    expect(error.kind).toBe(want)
    expect(error.status).toBe(status.code)
    expect(error.message).toBe(status.message)
  })

  it('tells a right that the caller lacks from an object that is refused', () => {
    const forbidden = (message: string) =>
      apiErrorFromResponse(403, Buffer.from(JSON.stringify({ reason: 'Forbidden', message })))
    const what = 'webhookdeliveries.davit.dev is forbidden: '
    const lacking = `${what}User "system:serviceaccount:a:b" cannot create resource "webhookdeliveries" in API group "davit.dev"`
    expect(forbidden(lacking)).toMatchObject({ kind: 'Forbidden', lacksRight: true })
    expect(forbidden(`${what}violates PodSecurity "restricted"`)).toMatchObject({
      kind: 'Forbidden',
      lacksRight: false,
    })
  })

  it.each([
    ['Forbidden', 403],
    ['Invalid', 422],
  ])('tells the denial of a policy from other rejections: %s', (reason, code) => {
    const rejected = (message: string) =>
      apiErrorFromResponse(code, Buffer.from(JSON.stringify({ reason, message })))
    const denial =
      "jobs.batch \"shop\" is forbidden: ValidatingAdmissionPolicy 'a.example' with binding 'b' denied request: no"
    expect(rejected(denial)).toMatchObject({ kind: reason, isByPolicy: true })
    for (const other of ['violates PodSecurity "restricted"', 'spec: denied request', 'exceeded quota: q'])
      expect(rejected(`jobs.batch "shop" is forbidden: ${other}`).isByPolicy).toBe(false)
  })

  it('knows how long the server asks to wait, from the header or from the details', () => {
    const body = (details: object) => Buffer.from(JSON.stringify({ code: 429, details }))
    expect(apiErrorFromResponse(429, body({}), '3').retryAfterMs).toBe(3_000)
    expect(apiErrorFromResponse(429, body({ retryAfterSeconds: 2 })).retryAfterMs).toBe(2_000)
    for (const nonsense of ['soon', '-1', '0', 'NaN', 'Infinity', '1e300']) {
      expect(apiErrorFromResponse(429, body({}), nonsense).retryAfterMs ?? 0).toBeLessThanOrEqual(600_000)
    }
    expect(apiErrorFromResponse(429, body({}), 'soon').retryAfterMs).toBeUndefined()
  })

  it('is understood by its code alone when the body is no Status, and is bounded', () => {
    expect(apiErrorFromResponse(502, Buffer.from('<html>Bad Gateway</html>')).message).toBe(
      '<html>Bad Gateway</html>',
    )
    expect(apiErrorFromResponse(404, Buffer.from('')).message).toBe('the API server returned 404')
    expect(apiErrorFromResponse(404, Buffer.from('null')).kind).toBe('NotFound')
    expect(apiErrorFromResponse(500, Buffer.from('"x"')).kind).toBe('Unavailable')
    const details = { causes: 'no list', retryAfterSeconds: 'x' }
    expect(apiErrorFromResponse(403, Buffer.from(JSON.stringify({ message: 7, details }))).kind).toBe(
      'Forbidden',
    )
    expect(apiErrorFromResponse(500, Buffer.from('x'.repeat(100_000))).message).toHaveLength(1_000)
  })
})

describe('the error in an ERROR event', () => {
  it('is Gone for 410 and Unavailable for nonsense, with the 200 of the stream', () => {
    expect(apiErrorFromEvent({ code: 410, reason: 'Expired', message: 'too old' })).toMatchObject({
      kind: 'Gone',
      status: 200,
    })
    expect(apiErrorFromEvent(undefined)).toMatchObject({ kind: 'Unavailable', status: 200 })
    expect(apiErrorFromEvent({ code: 'x' })).toMatchObject({ kind: 'Unavailable', status: 200 })
    expect(apiErrorFromEvent({ code: 429, details: { retryAfterSeconds: 1 } })).toMatchObject({
      kind: 'TooManyRequests',
      retryAfterMs: 1_000,
    })
  })
})
