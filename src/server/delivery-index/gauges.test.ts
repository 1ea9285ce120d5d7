import { expect, it } from 'vitest'
import { registerIndexGauges } from './delivery-index.ts'

it('the log of deliveries tells how large it is, what was left out, and whether it is being read', () => {
  const gauges = new Map<string, () => number | Record<string, number>>()
  const register = (name: string, _help: string, read: () => number | Record<string, number>) =>
    void gauges.set(name, read)
  const registry = { gauge: register, total: register }
  const about = { lines: 1, endpoints: 2, segments: 3, held: 4, bytes: 5, dropped: 6, restarts: 7 }
  const stats = { ...about, reading: true }
  registerIndexGauges(registry, { stats: () => stats })
  expect(Object.fromEntries([...gauges].map(([name, read]) => [name, read()]))).toEqual({
    davit_index_deliveries: 1,
    davit_index_held_outcomes: 4,
    davit_index_bytes: 5,
    davit_index_dropped_total: 6,
    davit_index_restarts_total: 7,
    davit_index_reading: 1,
  })
})
