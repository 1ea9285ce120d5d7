import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { type Condition, condition } from '../apis/meta.ts'
import { type ConditionUpdate, mergeConditions } from './status.ts'

const EARLIER = '2026-01-31T12:00:00.000Z'
const NOW = Date.parse('2026-01-31T13:00:00.500Z')
const AT = { now: NOW, generation: 4 }

const held: Condition = {
  type: 'Ready',
  status: 'True',
  observedGeneration: 3,
  lastTransitionTime: EARLIER,
  reason: 'Accepted',
  message: 'in force',
}

describe('lastTransitionTime', () => {
  test.each([
    { given: 'a first look', before: undefined, status: 'True', want: '2026-01-31T13:00:00.500Z' },
    {
      given: 'another type before',
      before: { type: 'Stalled' },
      status: 'True',
      want: '2026-01-31T13:00:00.500Z',
    },
    { given: 'the same status', before: {}, status: 'True', want: EARLIER },
    {
      given: 'the same status for another reason',
      before: { reason: 'Other' },
      status: 'True',
      want: EARLIER,
    },
    { given: 'the same status in other words', before: { message: 'other' }, status: 'True', want: EARLIER },
    { given: 'True to False', before: {}, status: 'False', want: '2026-01-31T13:00:00.500Z' },
    { given: 'True to Unknown', before: {}, status: 'Unknown', want: '2026-01-31T13:00:00.500Z' },
    {
      given: 'Unknown to True',
      before: { status: 'Unknown' },
      status: 'True',
      want: '2026-01-31T13:00:00.500Z',
    },
  ] as const)('$given: $want', ({ before, status, want }) => {
    const conditions = before === undefined ? undefined : [{ ...held, ...before }]
    const finding: ConditionUpdate = { type: 'Ready', status, reason: 'Accepted', message: 'in force' }
    expect(mergeConditions(conditions, [finding], AT)).toStrictEqual([
      { ...finding, observedGeneration: 4, lastTransitionTime: want },
    ])
  })
})

const finding = fc.record({
  type: fc.constantFrom('Ready', 'Reconciling', 'Stalled', 'Delivering'),
  status: fc.constantFrom('True' as const, 'False' as const, 'Unknown' as const),
  reason: fc.constantFrom('Accepted', 'Failing', 'Paused'),
  message: fc.string({ maxLength: 40 }),
})
const look = fc.uniqueArray(finding, { selector: ({ type }) => type })

test('over any looks, each condition carries the time of the last look that changed its status', () => {
  fc.assert(
    fc.property(fc.array(look, { maxLength: 12 }), (looks) => {
      let conditions: Condition[] | undefined
      let model = new Map<string, { status: string; since: number }>()
      looks.forEach((findings, step) => {
        const now = NOW + step * 1000
        const next = new Map<string, { status: string; since: number }>()
        for (const { type, status } of findings) {
          const known = model.get(type)
          next.set(type, known?.status === status ? known : { status, since: now })
        }
        model = next
        conditions = mergeConditions(conditions, findings, { now, generation: step })
        expect(conditions.map(({ type }) => type)).toEqual(findings.map(({ type }) => type))
        for (const { type, lastTransitionTime, observedGeneration } of conditions) {
          expect(Date.parse(lastTransitionTime)).toBe(model.get(type)?.since)
          expect(observedGeneration).toBe(step)
        }
      })
    }),
  )
})

test('the same findings again change nothing, so that nothing is written', () => {
  fc.assert(
    fc.property(look, (findings) => {
      const once = mergeConditions(undefined, findings, AT)
      expect(mergeConditions(once, findings, { now: NOW + 60_000, generation: 4 })).toStrictEqual(once)
    }),
  )
})

test('a message of any length becomes one that the API server takes', () => {
  const long: ConditionUpdate = {
    type: 'Ready',
    status: 'False',
    reason: 'Refused',
    message: 'x'.repeat(100_000),
  }
  const [made] = mergeConditions(undefined, [long], AT)
  expect(condition.safeParse(made).success).toBe(true)
  expect(made?.message).toBe('x'.repeat(1000))
})

test('a message that is cut is one that reads back as it was written', () => {
  const long: ConditionUpdate = {
    type: 'Ready',
    status: 'False',
    reason: 'Refused',
    message: '😀'.repeat(2000),
  }
  const after = (more: string) => mergeConditions(undefined, [{ ...long, message: more + long.message }], AT)
  for (const more of ['', 'x']) expect(after(more)[0]?.message.isWellFormed()).toBe(true)
})
