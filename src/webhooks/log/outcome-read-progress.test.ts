import { expect, it } from 'vitest'
import { OutcomeReadProgress } from './reader.ts'

const START = Date.UTC(2026, 0, 31, 12)
const SECOND = 1000

it('knows all of a log that was empty when it began', () => {
  const known = new OutcomeReadProgress(START)
  known.advance({ version: 200, createdAt: START })
  known.advance({ version: 300, createdAt: START + 3600 * SECOND })
  expect([known.from, known.version]).toEqual([0, 300])
})

it('knows nothing of what was before the first that it was shown', () => {
  const known = new OutcomeReadProgress(START)
  known.advance({ version: 200, createdAt: START - 5 * SECOND })
  known.advance({ version: 300, createdAt: START + SECOND })
  expect([known.from, known.version]).toEqual([199, 300])
})

it('does not rely on what may have had neighbours that were deleted', () => {
  const known = new OutcomeReadProgress(START)
  known.advance({ version: 100, createdAt: START - 3600 * SECOND })
  known.advance({ version: 200, createdAt: START - 31 * SECOND })
  known.advance({ version: 210, createdAt: START - 29 * SECOND })
  expect([known.from, known.version]).toEqual([200, 210])
})

it('knows all that comes after its first list, however far its clock is ahead of the API server', () => {
  const known = new OutcomeReadProgress(START + 3600 * SECOND)
  known.advance({ version: 200, createdAt: START })
  known.listComplete()
  known.advance({ version: 300, createdAt: START + SECOND })
  expect([known.from, known.version]).toEqual([200, 300])
})
