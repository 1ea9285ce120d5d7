import { expect, test } from 'vitest'
import { createRandom } from '../../lib/time.ts'
import { createRequestIds } from './request.ts'

test('no two requests have the same id, over many batches of chance', () => {
  const next = createRequestIds(createRandom())
  const ids = Array.from({ length: 2_000 }, next)
  expect(new Set(ids).size).toBe(2_000)
  for (const id of ids) expect(id).toMatch(/^req_[0-9abcdefghjkmnpqrstvwxyz]{20}$/)
})
