import { expect, test } from 'vitest'
import { managedProblem } from './objects.ts'

const manager = (name: string, ...fields: string[]) => ({ name, fields: new Set(fields) })
const TWO = [manager('ma', 'url'), manager('mb', 'description', 'eventTypes')]

test.each([
  {
    managers: [manager('ma', 'url')],
    fields: ['url'],
    want: 'The spec is managed by ma. Change `url` at its source instead.',
  },
  {
    managers: TWO,
    fields: ['description'],
    want: '`description` is managed by mb. Change `description` at its source instead.',
  },
  {
    managers: TWO,
    fields: ['description', 'eventTypes'],
    want: '`description` and `eventTypes` are managed by mb. Change `description` and `eventTypes` at their source instead.',
  },
  {
    managers: TWO,
    fields: ['url', 'description'],
    want: '`url` is managed by ma. `description` is managed by mb. Change `url` and `description` at their source instead.',
  },
  {
    managers: TWO,
    fields: ['concurrency'],
    want: 'The spec is managed by ma and mb. Change `concurrency` at its source instead.',
  },
])('a change of $fields is rejected with the managers of these fields', ({ managers, fields, want }) => {
  const { code, detail } = managedProblem(managers, fields)
  expect([code, detail]).toEqual(['managed_elsewhere', want])
})
