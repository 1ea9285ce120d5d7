import { describe, expect, it } from 'vitest'
import type { Condition } from '../api/meta.ts'
import { withCondition } from './condition-list.ts'

const NOON = Date.UTC(2026, 0, 31, 12)
const ready: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Accepted',
  message: 'in force',
  lastTransitionTime: '2026-01-30T00:00:00.000Z',
}
const stalled: Condition = { ...ready, type: 'Stalled', status: 'False' }

describe('a condition in a list', () => {
  it('keeps its transition time while its status stays, even if reason and message change', () => {
    const list = withCondition([ready, stalled], { ...ready, reason: 'Changed', message: 'still' }, NOON)
    expect(list).toEqual([{ ...ready, reason: 'Changed', message: 'still' }, stalled])
  })

  it('gets the present time when its status changes, in its old place', () => {
    const list = withCondition([ready, stalled], { ...ready, status: 'False' }, NOON)
    expect(list).toEqual([
      { ...ready, status: 'False', lastTransitionTime: '2026-01-31T12:00:00.000Z' },
      stalled,
    ])
  })

  it('is put at the end when it is new', () => {
    const { lastTransitionTime: _, ...next } = stalled
    expect(withCondition([ready], next, NOON)).toEqual([
      ready,
      { ...stalled, lastTransitionTime: '2026-01-31T12:00:00.000Z' },
    ])
    expect(withCondition(undefined, next, NOON)).toHaveLength(1)
  })
})
