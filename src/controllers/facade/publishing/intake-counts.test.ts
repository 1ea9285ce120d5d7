import { expect, test } from 'vitest'
import { FakeClock } from '../../../../test/support/fake-clock.ts'
import { webhookEndpoint } from '../../../api/webhook-endpoint.ts'
import { EndpointDirectory } from '../../endpoint/endpoint-directory.ts'
import { IntakeRoom } from '../../publish/intake-room.ts'
import { IntakeCounts } from './intake-counts.ts'

const LIMITS = { organization: 10, all: 1000 }

function bed() {
  const clock = new FakeClock()
  const directory = new EndpointDirectory()
  const sizes = new Map<string, number>()
  const index = {
    unfinished: () =>
      [...sizes].map(([uid, size]) => ({ namespace: uid.startsWith('g') ? 'globex' : 'acme', uid, size })),
  }
  const counts = new IntakeCounts({ index, directory, clock })
  const room = new IntakeRoom({
    tally: counts,
    unseen: { total: 0, ofOrganization: () => 0 },
    written: { of: () => 0, total: 0 } as never,
    lanes: () => counts.waiting(),
    limits: { pending: LIMITS, heldBytes: 1, writtenBytes: { organization: 1, all: 1 } },
  })
  const endpoint = (name: string, state = 'enabled') =>
    directory.apply(
      webhookEndpoint.parse({
        metadata: { name, namespace: 'acme', uid: `u-${name}`, resourceVersion: '1', generation: 1 },
        spec: { url: 'https://receiver.example', eventTypes: ['*'], state },
      }),
    )
  return { clock, sizes, counts, room, endpoint }
}

test('what waits takes room, of the own organization alone, and what a disabled endpoint holds does not', () => {
  const { sizes, room, endpoint } = bed()
  endpoint('slow')
  endpoint('paused', 'disabled')
  sizes.set('u-slow', 4).set('u-paused', 500).set('globex-one', 3)
  expect(room.of('acme')).toBe(6)
})

test('what this process appends takes room at once, and once only when the index counts it', () => {
  const { clock, sizes, counts, room, endpoint } = bed()
  endpoint('slow')
  expect(room.of('acme')).toBe(10)
  counts.reserve('acme', 4)(true)
  sizes.set('u-slow', 4)
  expect(room.of('acme')).toBe(6)
  clock.advance(1000)
  expect(room.of('acme')).toBe(6)
  sizes.clear()
  clock.advance(1000)
  expect(room.of('acme')).toBe(10)
})

test('without room the endpoint with most is named', () => {
  const { sizes, room, endpoint } = bed()
  for (const name of ['slow', 'slower']) endpoint(name)
  sizes.set('u-slow', 4).set('u-slower', 6)
  expect(room.of('acme')).toMatchObject({ reason: 'TooManyPending', fullest: { name: 'slower' } })
})

test('what is about to be appended takes room until it is there, or is given up', () => {
  const { clock, counts, room, endpoint } = bed()
  endpoint('slow')
  const [first, second] = [counts.reserve('acme', 6), counts.reserve('acme', 4)]
  expect(room.of('acme')).toMatchObject({ reason: 'TooManyPending' })
  clock.advance(1000)
  expect(room.of('acme')).toMatchObject({ reason: 'TooManyPending' })
  second(false)
  expect(room.of('acme')).toBe(4)
  first(true)
  expect(room.of('acme')).toBe(4)
})
