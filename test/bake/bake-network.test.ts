/** Registries that do not answer as they should (interface §7): with real ones, and the real tool. */
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import { expectFailure, type FailureRow } from '../support/bake/expect-failure.ts'
import { FailureBed, refuse } from '../support/bake/failure-bed.ts'

let bed: FailureBed
beforeAll(async () => {
  bed = await FailureBed.start()
})
afterEach(() => bed.renew())
afterAll(() => bed?.stop())

const ROWS: readonly FailureRow[] = [
  {
    name: 'too many requests',
    given: () => {
      const errors = [{ code: 'TOOMANYREQUESTS', message: 'slow down, please' }]
      refuse(bed.registries.basic, { status: 429, errors })
      return {}
    },
    want: {
      step: 'pull',
      code: 'rate_limited',
      message: /toomanyrequests: slow down, please/,
      verified: false,
    },
  },
  {
    name: 'an accident of the registry',
    given: () => {
      refuse(bed.registries.basic, { status: 500, errors: [], only: '/v2/' })
      return {}
    },
    want: { step: 'login', code: 'unreachable', message: /500 \(Internal Server Error\)/, verified: false },
  },
  {
    name: 'a registry that breaks off in the midst of a layer, again and again',
    given: () => {
      bed.registries.basic.front.trouble = (request, response) => {
        if (!request.url?.includes('/blobs/')) return false
        response.writeHead(200, { 'content-length': '10000000' }).write('x'.repeat(1000))
        setTimeout(() => response.destroy(), 50)
        return true
      }
      return { image: 'acme/large:1.0' }
    },
    want: { step: 'pull', code: 'unreachable', message: /EOF|connection reset/, verified: true },
  },
  {
    name: 'a layer that is not what its digest says',
    given: () => {
      bed.registries.basic.front.trouble = (request, response) => {
        if (!request.url?.includes('/blobs/')) return false
        response.writeHead(200, { 'content-type': 'application/octet-stream' }).end('something else')
        return true
      }
      return { image: 'acme/large:1.0' }
    },
    want: { step: 'pull', code: 'tool_failed', message: /digest/i, verified: true },
  },
  {
    name: 'a certificate that nobody trusts',
    given: () => ({ ca: bed.registries.expired.ca }),
    want: {
      step: 'pull',
      code: 'tls_failed',
      message: /x509: certificate signed by unknown authority/,
      verified: false,
    },
  },
  {
    name: 'a certificate that has expired',
    given: () => ({ registry: bed.registries.expired }),
    want: { step: 'pull', code: 'tls_failed', message: /x509: certificate has expired/, verified: false },
  },
  {
    name: 'a registry without TLS',
    given: () => ({ host: `localhost:${bed.plain.port}` }),
    want: {
      step: 'pull',
      code: 'tls_failed',
      message: /server gave HTTP response to HTTPS client/,
      verified: false,
    },
  },
  {
    name: 'a host without an address',
    given: () => ({ host: 'registry.invalid' }),
    want: {
      step: 'pull',
      code: 'dns_failed',
      message: /registry\.invalid.*(no such host|name resolution)/,
      verified: false,
    },
  },
  {
    name: 'a host where nobody answers',
    given: async () => ({ host: `localhost:${await freePort()}` }),
    want: { step: 'pull', code: 'unreachable', message: /connection refused/, verified: false },
  },
  {
    name: 'a host at an address of no registry',
    given: () => ({ host: '169.254.169.254' }),
    want: { step: 'pull', code: 'unreachable', message: /bakes must not connect to/, verified: false },
  },
]

describe('a bake fails on a registry:', () => {
  for (const row of ROWS) {
    it(`${row.name}: ${row.want.code}`, () => expectFailure(bed, row))
  }
})
