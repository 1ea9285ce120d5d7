import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  type BakeResult,
  bakeResult,
  MAX_RESULT_BYTES,
  MAX_SERVICE_NAME,
  MAX_SERVICES,
  MAX_TOOL_WORDS,
  POD_FAILURE_CODES,
} from '../../apis/bake.ts'
import { encodeBakeResult } from './bake.ts'

/** Of JSON, for one character. */
const LARGEST_UNIT_BYTES = 6
const AT = '2026-01-31T12:00:00.000Z'
const DIGEST = `sha256:${'f'.repeat(64)}`
const names = Array.from(
  { length: MAX_SERVICES },
  (_, index) => `${'a'.repeat(MAX_SERVICE_NAME - 2)}${String(index).padStart(2, '0')}`,
)

test('the largest success fits as it is', () => {
  const result: BakeResult = {
    version: 1,
    state: 'succeeded',
    services: names.map((name) => ({ name, digest: DIGEST, verified: { at: AT, ok: true } })),
  }
  const text = encodeBakeResult(result)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_RESULT_BYTES)
  expect(JSON.parse(text)).toEqual(result)
})

test('of a failure the words of the tool give way, and nothing else', () => {
  const words = fc.string({
    unit: fc.constantFrom('a', '"', '\n', '\u0001', '\u00fc', '\u{1f600}'),
    maxLength: MAX_TOOL_WORDS,
  })
  const code = fc.constantFrom(...POD_FAILURE_CODES)
  fc.assert(
    fc.property(words, fc.integer({ min: 0, max: MAX_SERVICES }), code, (message, count, code) => {
      const services = names.slice(0, count).map((name) => ({ name, verified: { at: AT, ok: false, code } }))
      const [service = 'a'] = names
      const failure = { service, step: 'read-secret' as const, code, message }
      const text = encodeBakeResult({ version: 1, state: 'failed', services, failure })
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_RESULT_BYTES)
      const read = bakeResult.parse(JSON.parse(text))
      expect(read.services).toEqual(services)
      expect(message.startsWith(read.failure?.message ?? '?')).toBe(true)
    }),
    { numRuns: 500 },
  )
})

test.each(['a', '\u0001', '\u00fc', '\u{1f600}'])(
  'of too many words in %j as many stay as there is room for',
  (unit) => {
    const message = unit.repeat(MAX_TOOL_WORDS / unit.length)
    const services = names.map((name) => ({
      name,
      verified: { at: AT, ok: false, code: 'unreachable' as const },
    }))
    const failure = { step: 'pull' as const, code: 'unreachable' as const, message }
    const result: BakeResult = { version: 1, state: 'failed', services, failure }
    expect(Buffer.byteLength(JSON.stringify(result))).toBeGreaterThan(MAX_RESULT_BYTES)
    const text = encodeBakeResult(result)
    const room = MAX_RESULT_BYTES - Buffer.byteLength(text)
    expect(room).toBeGreaterThanOrEqual(0)
    // A sixth of what is too much goes at a time.
    expect(room).toBeLessThan(LARGEST_UNIT_BYTES + 1)
    const read = JSON.parse(text)
    expect({ ...read, failure: { ...read.failure, message } }).toEqual(result)
    expect(message.startsWith(read.failure.message)).toBe(true)
    expect(read.failure.message.length % unit.length).toBe(0)
  },
)

test('a success is never cut, whatever its size', () => {
  const service = {
    name: 'a'.repeat(MAX_RESULT_BYTES),
    digest: DIGEST,
    verified: { at: AT, ok: true as const },
  }
  const result: BakeResult = { version: 1, state: 'succeeded', services: [service] }
  expect(JSON.parse(encodeBakeResult(result))).toEqual(result)
})

test('words that fit stay whole', () => {
  const failure = { step: 'pull' as const, code: 'tool_failed' as const, message: 'a'.repeat(MAX_TOOL_WORDS) }
  const text = encodeBakeResult({ version: 1, state: 'failed', services: [], failure })
  expect(JSON.parse(text).failure.message).toHaveLength(MAX_TOOL_WORDS)
})
