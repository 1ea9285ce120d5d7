import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { remainingQuota } from './quota.ts'

const limits = { organization: 2000, all: 10_000 }

describe('room for new deliveries', () => {
  it.each([
    { pending: { organization: 0, all: 0 }, room: 2000 },
    { pending: { organization: 1999, all: 1999 }, room: 1 },
    { pending: { organization: 2000, all: 2000 }, room: 0 },
    { pending: { organization: 2500, all: 2500 }, room: 0 },
    { pending: { organization: 10, all: 8500 }, room: 500 },
    // Of the reserve of 1000, each gets up to 50.
    { pending: { organization: 0, all: 9000 }, room: 50 },
    { pending: { organization: 49, all: 9500 }, room: 1 },
    { pending: { organization: 50, all: 9500 }, room: 0 },
    { pending: { organization: 0, all: 9990 }, room: 10 },
    { pending: { organization: 0, all: 10_000 }, room: 0 },
  ])('is $room with $pending', ({ pending, room }) => {
    expect(remainingQuota(pending, limits)).toBe(room)
  })

  it('is never more than either limit leaves, and an idle organization has some until all is used', () => {
    const count = fc.integer({ min: 1, max: 300_000 })
    fc.assert(
      fc.property(count, count, count, count, (organization, others, forOne, forAll) => {
        const limits = { organization: forOne, all: forAll }
        const all = organization + others
        const room = remainingQuota({ organization, all }, limits)
        expect(room).toBeGreaterThanOrEqual(0)
        if (room > 0) expect(organization + room).toBeLessThanOrEqual(forOne)
        if (room > 0) expect(all + room).toBeLessThanOrEqual(forAll)
        const idle = remainingQuota({ organization: 0, all: others }, limits)
        if (forAll >= 10 && others < forAll) expect(idle).toBeGreaterThan(0)
      }),
    )
  })
})
