import { describe, expect, test } from 'vitest'
import {
  A,
  type Answer,
  B,
  CredentialWorld,
  DENIED,
  locationOf,
  RETRY,
  SPEC,
} from '../../../test/support/credential-world.ts'
import { fc } from '../../../test/support/fast-check.ts'

/** What happens to the world between two passes. */
type Happening = (one: CredentialWorld, serial: number) => void
const HAPPENINGS: Record<string, Happening> = {
  'a new Secret': (one, n) => {
    one.secret = { uid: `u-${n}`, resourceVersion: `${n}`, value: `v-${n}`, retained: false }
  },
  'a retained Secret': (one, n) => {
    one.secret = { uid: `u-${n}`, resourceVersion: `${n}`, value: `v-${n}`, retained: true }
  },
  'the same again': (one, n) => {
    const value = one.secret?.value ?? 'v-0'
    one.secret = { uid: `u-${n}`, resourceVersion: `${n}`, value, retained: false }
  },
  'the same again, with an owner': (one, n) => {
    const value = one.secret?.value ?? 'v-0'
    one.secret = { uid: `u-${n}`, resourceVersion: `${n}`, value, retained: false, owner: 'ExternalSecret a' }
  },
  'another value': (one, n) => {
    if (one.secret) one.secret = { ...one.secret, resourceVersion: `${n}`, value: `v-${n}` }
  },
  'another label': (one, n) => {
    if (one.secret) one.secret = { ...one.secret, resourceVersion: `${n}` }
  },
  'no Secret': (one) => {
    one.secret = undefined
  },
  'account A': (one) => {
    one.account = { state: 'ready', location: locationOf(A) }
  },
  'account B': (one) => {
    one.account = { state: 'ready', location: locationOf(B) }
  },
  'no settings': (one) => {
    one.account = { state: 'missing' }
  },
  'a role that fails': (one) => {
    one.account = { state: 'stalled', message: 'no', location: locationOf(A) }
  },
  'somebody removes it': (one) => one.meddle(A, undefined),
  'somebody makes it anew': (one) => one.meddle(A, { owner: 'not-ours', value: 'theirs', version: 1 }),
  'a listing misses it': (one) => {
    if (one.stored) one.listing = { state: 'recorded', drift: { kind: 'missing' } }
  },
  'time goes on': (one) => {
    one.now += 40_000
  },
  'it is deleted': (one) => {
    one.deletedAt ??= one.now
  },
}

const answer: fc.Arbitrary<Answer> = fc.constantFrom(undefined, undefined, undefined, RETRY, DENIED, SPEC)
const round = (stops: fc.Arbitrary<number>) =>
  fc.record({
    happening: fc.constantFrom(...Object.keys(HAPPENINGS)),
    answers: fc.array(answer, { maxLength: 5 }),
    stopAfter: stops,
  })
type Round = { happening: string; answers: Answer[]; stopAfter: number }

function live(one: CredentialWorld, rounds: readonly Round[]): void {
  for (const [serial, { happening, answers, stopAfter }] of rounds.entries()) {
    HAPPENINGS[happening]?.(one, serial)
    if (!one.gone) one.run(answers, stopAfter)
  }
}

/** The end of every story: it is deleted, and AWS answers nothing but the same failure. */
function end(one: CredentialWorld, failure: Answer): void {
  one.deletedAt ??= one.now
  for (let tries = 0; tries < 20 && !one.gone; tries += 1) {
    const step = one.run([failure, failure, failure])
    if (step.step === 'wait') one.now = step.until ?? one.now + 1_000_000
  }
}

describe('whatever happens, and whatever is answered', () => {
  const always = fc.constant(Number.POSITIVE_INFINITY)
  const mayStop = fc.oneof(always, fc.integer({ min: 1, max: 6 }))

  test('each pass ends, nothing is removed or written over unseen, and no Secret is deleted before its value is stored', () => {
    fc.assert(
      fc.property(fc.array(round(mayStop), { maxLength: 15 }), answer, (rounds, failure) => {
        const one = new CredentialWorld()
        live(one, rounds)
        expect(one.wrongs).toEqual([])
        end(one, failure)
        expect({ wrongs: one.wrongs, gone: one.gone, held: one.hasFinalizer }).toEqual({
          wrongs: [],
          gone: true,
          held: false,
        })
      }),
      { numRuns: 3000 },
    )
  })

  test('no parameter stays that is not on the list of orphans, where no process ended in between', () => {
    fc.assert(
      fc.property(fc.array(round(always), { maxLength: 15 }), answer, (rounds, failure) => {
        const one = new CredentialWorld()
        live(one, rounds)
        end(one, failure)
        one.stored = undefined
        expect(one.garbage()).toEqual([])
      }),
      { numRuns: 3000 },
    )
  })
})

test('a Secret stays in the cluster if its parameter was removed by a process that ended before it could record that', () => {
  const one = new CredentialWorld()
  const always = { answers: [], stopAfter: Number.POSITIVE_INFINITY }
  live(one, [
    { happening: 'a new Secret', ...always },
    { happening: 'account B', answers: [], stopAfter: 2 },
    { happening: 'a role that fails', ...always },
    { happening: 'the same again', ...always },
  ])
  expect({ wrongs: one.wrongs, value: one.secret?.value }).toEqual({ wrongs: [], value: 'v-0' })
})
