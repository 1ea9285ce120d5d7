import { expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ApiError, type ApiErrorKind } from '../kube/client.ts'
import { StaleLeaseCollector } from './peer-liveness.ts'
import type { StoredRecord } from './replica-leases.ts'

const AGAIN_MS = 9000

function recordOf(n: number): StoredRecord {
  return { name: `r${n}`, version: `v${n}`, session: `r${n}.1`, view: [], draining: [], leaseMs: 9000 }
}

function bed() {
  const clock = new FakeClock()
  const asked: string[] = []
  const lines: string[] = []
  const failures = new Map<string, ApiErrorKind>()
  const nothing = () => undefined
  const left = new StaleLeaseCollector({
    records: {
      remove: async (name, version) => {
        asked.push(`${name}@${version}`)
        const kind = failures.get(name)
        if (kind) throw new ApiError(kind, 'no')
      },
    },
    clock,
    log: { info: nothing, warn: (_event, message) => void lines.push(message), error: nothing },
    againMs: AGAIN_MS,
  })
  return { clock, left, asked, lines, failures }
}

it('each record that is to go is removed in the version that was seen', async () => {
  const { left, asked } = bed()
  await left.collect([recordOf(1), recordOf(2)])
  expect(asked).toEqual(['r1@v1', 'r2@v2'])
})

it('what could not be removed is told of and tried again, and not before its time', async () => {
  const { clock, left, asked, lines, failures } = bed()
  failures.set('r1', 'Forbidden')
  await left.collect([recordOf(1)])
  expect(lines).toHaveLength(1)
  clock.advance(AGAIN_MS - 1)
  await left.collect([recordOf(1)])
  expect(asked).toHaveLength(1)
  clock.advance(1)
  await left.collect([recordOf(1)])
  expect(asked).toHaveLength(2)
})

it.each(['Conflict', 'NotFound'] as const)(
  'somebody else was there before (%s): nothing to tell',
  async (kind) => {
    const { left, lines, failures } = bed()
    failures.set('r1', kind)
    await left.collect([recordOf(1)])
    expect(lines).toEqual([])
  },
)

it('a round takes eight, and the next ones take the rest', async () => {
  const { left, asked } = bed()
  const all = Array.from({ length: 20 }, (_, n) => recordOf(n))
  const rounds: number[] = []
  for (let n = 0; n < 4; n += 1) {
    const before = asked.length
    await left.collect(all)
    rounds.push(asked.length - before)
  }
  expect(rounds).toEqual([8, 8, 4, 0])
})

it('one that came back and left again is new', async () => {
  const { left, asked } = bed()
  await left.collect([recordOf(1)])
  await left.collect([])
  await left.collect([recordOf(1)])
  expect(asked).toHaveLength(2)
})
