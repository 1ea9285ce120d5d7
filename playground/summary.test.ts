import { expect, it } from 'vitest'
import { RECEIVED } from '../test/support/received.ts'
import { Summary } from './summary.ts'

it('tells successes, failures on purpose and signatures that do not verify apart', () => {
  const summary = new Summary()
  summary.add(RECEIVED)
  summary.add({ ...RECEIVED, code: 503 })
  summary.add({ ...RECEIVED, code: 503 })
  summary.add({ ...RECEIVED, code: 401, verified: false })
  expect(summary.lines()).toEqual([
    '1 delivery succeeded; the receiver rejected 2 attempts on purpose.',
    '3 of 4 signatures verified.',
  ])
  expect(summary.unverified).toBe(1)
})

it('tells when so many were delivered, and of the first signature that does not verify', async () => {
  const summary = new Summary()
  const resolved: string[] = []
  void summary.delivered(2).then(() => resolved.push('two'))
  void summary.refused().then(() => resolved.push('refused'))
  summary.add(RECEIVED)
  summary.add({ ...RECEIVED, code: 503 })
  await Promise.resolve()
  expect(resolved).toEqual([])
  summary.add(RECEIVED)
  await Promise.resolve()
  expect(resolved).toEqual(['two'])
  summary.add({ ...RECEIVED, code: 401, verified: false })
  await summary.refused()
  expect(resolved).toEqual(['two', 'refused'])
})
