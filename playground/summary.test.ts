import { expect, it } from 'vitest'
import type { Received } from './receiver.ts'
import { Summary } from './summary.ts'

const DELIVERED: Received = {
  at: new Date(0),
  endpoint: 'billing',
  type: 'environment.started',
  id: 'msg_1',
  attempt: 1,
  verified: true,
  code: 200,
}

it('tells successes, failures on purpose and signatures that do not verify apart', () => {
  const summary = new Summary()
  summary.add(DELIVERED)
  summary.add({ ...DELIVERED, code: 503 })
  summary.add({ ...DELIVERED, code: 503 })
  summary.add({ ...DELIVERED, code: 401, verified: false })
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
  summary.add(DELIVERED)
  summary.add({ ...DELIVERED, code: 503 })
  await Promise.resolve()
  expect(resolved).toEqual([])
  summary.add(DELIVERED)
  await Promise.resolve()
  expect(resolved).toEqual(['two'])
  summary.add({ ...DELIVERED, code: 401, verified: false })
  await summary.refused()
  expect(resolved).toEqual(['two', 'refused'])
})
