import { afterEach, describe, expect, it } from 'vitest'
import { BED_SHARDS, COORDINATOR_TIMES, CoordinatorBed } from '../../test/support/coordinator-bed.ts'

const GONE_MS = COORDINATOR_TIMES.leaseMs + COORDINATOR_TIMES.drainMs

const beds: CoordinatorBed[] = []
afterEach(() => {
  for (const bed of beds.splice(0)) bed.end()
})

async function twoOfOneName(isNameOwn: boolean) {
  const bed = new CoordinatorBed()
  beds.push(bed)
  const first = bed.join('host', { isNameOwn })
  await bed.clock.elapse(1000)
  expect(first.coordinator.owned).toBe(BED_SHARDS)
  return {
    bed,
    first,
    second: () => bed.join('host', { isNameOwn }),
  }
}

describe('a name that nobody has promised to be one process’s', () => {
  it('is not taken from one who lives: whoever comes waits, does nothing, and says so', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    const second = join()
    for (let waited = 0; waited < 3 * GONE_MS; waited += 1000) {
      await bed.clock.elapse(1000)
      expect(first.coordinator.owned).toBe(BED_SHARDS)
      expect(second.coordinator.owned).toBe(0)
    }
    expect(second.coordinator.isNameTaken).toBe(true)
    expect(second.lines).toEqual(['another process uses the name of this replica'])
    expect(first.replaced()).toBe(false)
  })

  it('is had when nothing of the one before can be under way any more, and not earlier', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    first.end()
    const second = join()
    await bed.clock.elapse(GONE_MS - 1)
    expect(second.coordinator.mayAct).toBe(false)
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs + 1000)
    expect(second.coordinator.owned).toBe(BED_SHARDS)
    expect(second.coordinator.isNameTaken).toBe(false)
  })

  it('is had at once after one who left in order', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    first.coordinator.leave()
    await bed.clock.elapse(1000)
    const second = join()
    await bed.clock.elapse(1000)
    expect(second.coordinator.owned).toBe(BED_SHARDS)
  })

  it('is not taken with a record that somebody has spoilt, since a process may stand behind it', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    const record = bed.records.byName.get('host')
    if (!record) throw new Error('there is no record')
    bed.records.put({ ...record, session: '', view: [], draining: [0, 1, 2] })
    const second = join()
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs * 2)
    expect(first.coordinator.owned).toBe(BED_SHARDS)
    expect(second.coordinator.mayAct).toBe(false)
    expect(first.replaced()).toBe(false)
  })

  it('is not had by one who waits when somebody removes the record: that does not stop who lives', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    const second = join()
    await bed.clock.elapse(2000)
    bed.records.byName.delete('host')
    await bed.clock.elapse(GONE_MS)
    expect(second.coordinator.owned).toBe(0)
    expect(first.coordinator.owned).toBe(BED_SHARDS)
  })

  it('ends one who finds another process there that came later', async () => {
    const { bed, first, second: join } = await twoOfOneName(false)
    bed.records.byName.delete('host')
    join()
    await bed.clock.elapse(COORDINATOR_TIMES.renewEveryMs * 2)
    expect(first.replaced()).toBe(true)
  })
})

it('a name of its own is taken up at once: who has it knows that the one before is dead', async () => {
  const { bed, first, second: join } = await twoOfOneName(true)
  first.end()
  const second = join()
  await bed.clock.elapse(1000)
  expect(second.coordinator.owned).toBe(BED_SHARDS)
})
