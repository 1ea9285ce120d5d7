import { expect, it } from 'vitest'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { leases, REPLICA_LABEL } from '../apis/core-kinds.ts'
import { LiveControllers } from './endpoint-writes.ts'

const NOW = Date.parse('2026-01-01T00:10:00Z')

async function lives(spec: object, role = 'controller'): Promise<boolean> {
  const resources = new MemoryStore(() => NOW)
  const metadata = { namespace: 'davit-system', name: 'one', labels: { [REPLICA_LABEL]: role } }
  await resources.create(leases, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec })
  const clock = { now: () => NOW }
  return await new LiveControllers(resources, 'davit-system', clock).anyLives()
}

const renewed = (ms: number) => ({
  renewTime: new Date(NOW - ms).toISOString().replace('Z', '000Z'),
  leaseDurationSeconds: 9,
})

it.each([
  { what: 'that was renewed a moment ago', spec: renewed(2000), want: true },
  { what: 'that has ended, and of which something may be under way', spec: renewed(60_000), want: true },
  { what: 'that ended long ago', spec: renewed(70_000), want: false },
  { what: 'that was renewed by a clock that is ahead', spec: renewed(-3_600_000), want: true },
  { what: 'that says nothing', spec: {}, want: true },
])('takes a Lease $what for one of a controller that lives: $want', async ({ spec, want }) => {
  expect(await lives(spec)).toBe(want)
})

it('does not take a REST server for a controller', async () => {
  expect(await lives(renewed(0), 'api')).toBe(false)
})
