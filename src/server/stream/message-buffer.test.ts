import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { type Draft, type Message, MessageBuffer } from './message-buffer.ts'
import { SOURCES, type Source, START } from './position.ts'

const TEXT = 'x'.repeat(840)
/** Of a message, as the buffer counts. */
const BYTES = 1000

function draftAt(version: number, more: Partial<Draft> = {}): Draft {
  const position = { version, index: 0 }
  return { source: 'events', position, organization: 'acme', type: 'event', render: () => TEXT, ...more }
}

function openBuffer(messages = 100) {
  const news: (string | undefined)[] = []
  const buffer = new MessageBuffer({ maxBytes: messages * BYTES, onNews: (one) => void news.push(one) })
  return { buffer, news }
}

function versionsOf(buffer: MessageBuffer, organization = 'acme'): number[] {
  const found: number[] = []
  for (let number = buffer.first(organization); number < buffer.end(organization); number += 1)
    found.push(buffer.at(organization, number)?.position.version ?? Number.NaN)
  return found
}

test('messages wait until everything before them was seen, and then come in order, whatever the order was before', () => {
  const { buffer, news } = openBuffer()
  for (const version of [7, 5, 9]) buffer.add(draftAt(version))
  expect(versionsOf(buffer)).toEqual([])
  buffer.seenUpTo('events', 7)
  expect(versionsOf(buffer)).toEqual([5, 7])
  expect(news).toEqual(['acme'])
  buffer.seenUpTo('events', 9)
  expect(versionsOf(buffer)).toEqual([5, 7, 9])
})

test('a message that comes after its place in the order is ignored', () => {
  const { buffer } = openBuffer()
  buffer.seenUpTo('events', 7)
  buffer.add(draftAt(7))
  buffer.seenUpTo('events', 9)
  expect(versionsOf(buffer)).toEqual([])
  expect(buffer.bytes).toBe(0)
})

test('an event that is in the log twice is one message, at its first position', () => {
  const { buffer } = openBuffer()
  for (const version of [9, 5]) buffer.add(draftAt(version, { key: 'twice' }))
  buffer.seenUpTo('events', 9)
  expect(versionsOf(buffer)).toEqual([5])
})

test('an event whose first position was dropped is not told at a later one', () => {
  const { buffer } = openBuffer(5)
  for (const version of [1, 98]) buffer.add(draftAt(version, { key: 'dropped to make space' }))
  buffer.add(draftAt(99, { key: 'added when its place was dropped' }))
  for (let version = 3; version <= 12; version += 1) buffer.add(draftAt(version, { key: `${version}` }))
  buffer.add(draftAt(2, { key: 'added when its place was dropped' }))
  buffer.seenUpTo('events', 99)
  const versions = versionsOf(buffer)
  expect(versions.length).toBeGreaterThan(0)
  expect(versions.filter((version) => version > 12)).toEqual([])
})

test('a message says what is so when everything before it was seen, and is none if nothing is left to tell', () => {
  const { buffer } = openBuffer()
  let text: string | undefined = 'before'
  buffer.add(draftAt(2, { render: () => text }))
  text = 'after'
  buffer.seenUpTo('events', 2)
  expect(buffer.at('acme', 0)?.data).toBe('after')
  buffer.add(draftAt(3, { render: () => undefined }))
  buffer.seenUpTo('events', 3)
  expect(versionsOf(buffer)).toEqual([2])
})

test('at the limit, the organization that holds most loses its oldest messages', () => {
  const { buffer } = openBuffer(10)
  for (const version of [1, 2]) buffer.add(draftAt(version, { organization: 'small' }))
  buffer.seenUpTo('events', 2)
  for (let version = 3; version <= 40; version += 1) {
    buffer.add(draftAt(version))
    buffer.seenUpTo('events', version)
    expect(buffer.bytes).toBeLessThanOrEqual(10 * BYTES)
  }
  expect(versionsOf(buffer, 'small')).toEqual([1, 2])
  expect(versionsOf(buffer).at(-1)).toBe(40)
  expect(buffer.covers('small', START)).toBe(true)
  expect(buffer.covers('acme', START)).toBe(false)
  const oldest = versionsOf(buffer)[0] ?? 0
  expect(buffer.covers('acme', { ...START, events: { version: oldest, index: 0 } })).toBe(true)
})

test('a list that is too large leaves its newest messages, and nobody continues before them', () => {
  const { buffer } = openBuffer(20)
  for (let version = 100; version > 0; version -= 1) {
    buffer.add(draftAt(version))
    expect(buffer.bytes).toBeLessThanOrEqual(21 * BYTES)
  }
  buffer.seenUpTo('events', 100)
  const versions = versionsOf(buffer)
  expect(versions.length).toBeGreaterThanOrEqual(5)
  expect(versions).toEqual(Array.from(versions, (_, index) => 101 - versions.length + index))
  const from = { version: versions[0] ?? 0, index: 0 }
  expect(buffer.covers('acme', { ...START, events: from })).toBe(true)
  expect(buffer.covers('acme', { ...START, events: { version: from.version - 1, index: 0 } })).toBe(false)
  expect(buffer.covers('other', START)).toBe(false)
})

test('what was skipped raises the floor of all sources, and new clients start behind it', () => {
  const { buffer } = openBuffer()
  buffer.skipped(SOURCES, 5)
  expect(buffer.covers('acme', START)).toBe(false)
  expect(buffer.covers('acme', buffer.seen)).toBe(true)
  expect(buffer.seen.objects).toEqual({ version: 6, index: 0 })
})

test('a closed buffer is empty, and says so to all', () => {
  const { buffer, news } = openBuffer()
  buffer.add(draftAt(1))
  buffer.close()
  buffer.add(draftAt(2))
  buffer.seenUpTo('events', 2)
  expect([buffer.bytes, buffer.isClosed, versionsOf(buffer)]).toEqual([0, true, []])
  expect(news).toEqual([undefined])
})

function placeOf({ source, position }: Pick<Message, 'source' | 'position'>): string {
  return `${source} ${position.version}`
}

const step = fc.record({
  source: fc.constantFrom(...SOURCES),
  organization: fc.constantFrom('a', 'b', 'c'),
  ahead: fc.integer({ min: 1, max: 5 }),
  characters: fc.nat({ max: 2000 }),
  isSeen: fc.boolean(),
})

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Adds a message with each step. @returns those that did not come too late */
function fill(buffer: MessageBuffer, steps: readonly Step[], check: () => void): Draft[] {
  const added: Draft[] = []
  const seen: Record<Source, number> = { events: 0, outcomes: 0, objects: 0 }
  let version = 0
  for (const { source, organization, ahead, characters, isSeen } of steps) {
    version += 1
    const render = () => 'x'.repeat(characters)
    const draft = draftAt(version + ahead * 10, { source, organization, render })
    if (draft.position.version > seen[source]) added.push(draft)
    buffer.add(draft)
    if (isSeen) seen[source] = version
    if (isSeen) buffer.seenUpTo(source, version)
    check()
  }
  for (const source of SOURCES) buffer.seenUpTo(source, version + 100)
  check()
  return added
}

function keptOf(buffer: MessageBuffer, organization: string): Message[] {
  const count = buffer.end(organization) - buffer.first(organization)
  return Array.from({ length: count }, (_, index) => {
    const message = buffer.at(organization, buffer.first(organization) + index)
    if (!message) throw new Error('a message is missing')
    return message
  })
}

test('it stays within its limit, in order, and whatever is missing is behind a floor', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 120 }),
      fc.integer({ min: 3000, max: 30_000 }),
      (steps, maxBytes) => {
        const buffer = new MessageBuffer({ maxBytes, onNews: () => undefined })
        const added = fill(buffer, steps, () => expect(buffer.bytes).toBeLessThanOrEqual(maxBytes))
        for (const organization of ['a', 'b', 'c']) {
          const kept = keptOf(buffer, organization)
          for (const source of SOURCES) {
            const versions = kept.filter((one) => one.source === source).map((one) => one.position.version)
            expect(versions).toEqual(versions.toSorted((a, b) => a - b))
          }
          const places = new Set(kept.map(placeOf))
          const missing = added.filter(
            (one) => one.organization === organization && !places.has(placeOf(one)),
          )
          for (const { source, position } of missing)
            expect(buffer.covers(organization, { ...buffer.seen, [source]: position })).toBe(false)
        }
      },
    ),
  )
})
