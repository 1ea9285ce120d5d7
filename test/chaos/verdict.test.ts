import { describe, expect, it } from 'vitest'
import { type Evidence, judge, type Reception, violations } from '../support/verdict.ts'

/**
 * `a`: delivery a to the ordered endpoint `o`; `+`: received successfully; `1`: in run 1. All runs except the last were killed.
 */
function evidence(accepted: string, receptions: string): Evidence {
  const received = receptions.split(' ').map((text): Reception => {
    const [id = '', answer, run] = text
    return { endpoint: 'o', id, answer: answer === '+' ? 'ok' : 'failed', run: Number(run) }
  })
  return {
    accepted: [...accepted].map((id) => ({ endpoint: 'o', id })),
    receptions: received,
    orderedEndpoints: new Set(['o']),
    killed: new Set([1, 2]),
    maxAttempts: 3,
  }
}

describe('the verdict on a run', () => {
  it.each([
    { what: 'all in order', accepted: 'ab', receptions: 'a+1 b+1', want: [] },
    { what: 'retries of the head', accepted: 'ab', receptions: 'a-1 a-1 a+1 b+1', want: [] },
    { what: 'a head that is exhausted', accepted: 'ab', receptions: 'a-1 a-1 a-1 b+1', want: [] },
    { what: 'a repeat after a kill', accepted: 'ab', receptions: 'a+1 a+2 b+2', want: [] },
    { what: 'one more attempt after a kill', accepted: 'a', receptions: 'a-1 a-1 a-1 a-2', want: [] },
    { what: 'a delivery that never came', accepted: 'abc', receptions: 'a+1 b+1', want: ['1 lost: o c'] },
    { what: 'one that was given up early', accepted: 'a', receptions: 'a-1 a-1', want: ['1 lost: o a'] },
    {
      what: 'what nobody accepted',
      accepted: 'a',
      receptions: 'a+1 x+1',
      want: ['1 received but never accepted: o x'],
    },
    {
      what: 'a repeat within a run',
      accepted: 'a',
      receptions: 'a+1 a+1',
      want: ['1 received twice without a crash between: o a'],
    },
    {
      what: 'two repeats after one kill',
      accepted: 'a',
      receptions: 'a+1 a+2 a+2',
      want: ['1 received twice without a crash between: o a'],
    },
    {
      what: 'a repeat after a run that ended by itself',
      accepted: 'a',
      receptions: 'a+3 a+4',
      want: ['1 received twice without a crash between: o a'],
    },
    {
      what: 'an attempt too many',
      accepted: 'a',
      receptions: 'a-3 a-3 a-3 a-3',
      want: ['1 attempted too often: o a'],
    },
    {
      what: 'one that was skipped',
      accepted: 'abc',
      receptions: 'a+1 c+1 b+1',
      want: ['1 out of order: o b', '1 begun before the one before it had ended: o c'],
    },
    {
      what: 'one that overtook its head',
      accepted: 'ab',
      receptions: 'a-1 b+1 a+1',
      want: ['1 out of order: o a', '1 begun before the one before it had ended: o b'],
    },
    {
      what: 'a repeat from behind the head after a kill',
      accepted: 'ab',
      receptions: 'a+1 b+1 a+2',
      want: ['1 out of order: o a'],
    },
  ])('on $what', ({ accepted, receptions, want }) => {
    expect(violations(judge(evidence(accepted, receptions)))).toEqual(want)
  })

  it('asks for no order where the endpoint has none', () => {
    const mixed = { ...evidence('abc', 'c+1 a-1 b+1 a+1'), orderedEndpoints: new Set<string>() }
    expect(violations(judge(mixed))).toEqual([])
  })

  it('tells duplicates by the run that had received them', () => {
    const { duplicates } = judge(evidence('ab', 'a+1 a+2 b+2 b+3'))
    expect(duplicates).toEqual([
      { endpoint: 'o', id: 'a', run: 1, explained: true },
      { endpoint: 'o', id: 'b', run: 2, explained: true },
    ])
  })
})
