import { expect, test } from 'vitest'
import { judgeNoted, type NotedEvidence } from './noted-verdict.ts'

const NOTHING = { missing: [], undone: [], unsent: [], misnamed: [], early: [], misplaced: [] }

/** Two notes of one organization and one of another, without violations. */
function evidence(): NotedEvidence & { objects: { name: string; state?: string; eventId?: string }[] } {
  return {
    notes: new Map([
      ['org-0', [1, 3]],
      ['org-1', [2]],
    ]),
    objects: [1, 2, 3].map((n) => ({
      name: `note-${n}`,
      state: 'dispatched',
      eventId: `msg_${n}`,
      endSeenAt: 1000 * n + 5,
    })),
    events: [2, 1, 3].map((n) => logged(n)),
    takenAt: new Map([1, 2, 3].map((n) => [`msg_${n}`, 1000 * n])),
  }
}

function logged(n: number) {
  const organization = n === 2 ? 'org-1' : 'org-0'
  return { id: `msg_${n}`, organization, type: 'fleet.noted', body: `{"data":{"n":${n}}}`, segment: 's' }
}

test('nothing is wrong where each is in the log, under its id, in the order of its organization', () => {
  expect(judgeNoted(evidence())).toEqual(NOTHING)
})

test('one that says that it was sent, and is not in the log, was not', () => {
  const given = evidence()
  expect(judgeNoted({ ...given, events: [logged(2), logged(3)] })).toEqual({ ...NOTHING, unsent: ['note-1'] })
})

test('one that is in the log under another id is named', () => {
  const given = evidence()
  const [first, ...others] = given.objects
  const objects = [{ ...first, name: 'note-1', eventId: 'msg_9' }, ...others]
  expect(judgeNoted({ ...given, objects }).misnamed).toEqual(['note-1 says msg_9, the log msg_1'])
})

test('one that an endpoint takes for the first time when it was seen to be dispatched is early', () => {
  const given = evidence()
  const takenAt = new Map([...given.takenAt, ['msg_3', 3006]])
  expect(judgeNoted({ ...given, takenAt })).toEqual({ ...NOTHING, early: ['note-3'] })
})

test('one that stands before an earlier one of its organization is misplaced, however others stand', () => {
  const given = evidence()
  expect(judgeNoted({ ...given, events: [logged(3), logged(2), logged(1)] }).misplaced).toEqual(['note-3'])
})

test('one that is gone, and one that is not dispatched in the end, are told', () => {
  const given = evidence()
  const objects = [
    { name: 'note-2', state: 'accepted', eventId: 'msg_2' },
    { name: 'note-3', eventId: 'msg_3' },
  ]
  expect(judgeNoted({ ...given, objects })).toEqual({
    ...NOTHING,
    missing: ['note-1'],
    undone: ['note-3 (no state)', 'note-2 (accepted)'],
  })
})
