import { beforeEach, describe, expect, test } from 'vitest'
import type { EventOutline } from '../../apis/webhook-event.ts'
import { WebhookEventStore } from './store.ts'

let book: WebhookEventStore

beforeEach(() => {
  book = new WebhookEventStore()
})

function event(version: number, state?: 'accepted' | 'dispatched'): EventOutline {
  return {
    metadata: {
      name: 'one',
      namespace: 'acme',
      uid: 'uid-1',
      resourceVersion: String(version),
      creationTimestamp: '2026-01-31T12:00:00Z',
    },
    spec: { type: 'environment.started' },
    ...(state === undefined ? {} : { status: { state } }),
  }
}

const places = () => [book.waitingIn('acme').length, book.acceptedIn('acme').length]

describe('an event whose status was written', () => {
  test('is not taken back by what the watch shows from before, and is what it shows from after', () => {
    book.apply(event(1))
    book.beginWrite(event(1))
    book.completeWrite(event(1, 'accepted'), 3)
    expect(book.apply(event(2))).toBe(false)
    expect(places()).toEqual([0, 1])
    book.apply(event(3, 'accepted'))
    book.apply(event(4))
    expect(places()).toEqual([1, 0])
  })

  test('is what the watch has shown before the answer came', () => {
    book.apply(event(1))
    book.beginWrite(event(1))
    book.apply(event(4, 'dispatched'))
    book.completeWrite(event(1, 'accepted'), 3)
    expect(places()).toEqual([0, 0])
    book.apply(event(5))
    expect(places()).toEqual([1, 0])
  })

  test('stays so while the next write is under way, and when nobody knows what became of that', () => {
    book.apply(event(1))
    book.beginWrite(event(1))
    book.completeWrite(event(1, 'accepted'), 3)
    book.beginWrite(event(1, 'accepted'))
    expect(book.apply(event(2))).toBe(false)
    book.failWrite(event(1, 'accepted'))
    expect(book.apply(event(2))).toBe(false)
    expect(places()).toEqual([0, 1])
  })

  test('is what the watch shows when the store was set back', () => {
    book.apply(event(11))
    book.beginWrite(event(11))
    book.completeWrite(event(11, 'accepted'), 13)
    book.apply(event(5))
    expect(places()).toEqual([1, 0])
  })

  test('does not come back when it went meanwhile', () => {
    book.apply(event(1))
    book.beginWrite(event(1))
    book.remove(event(2))
    book.completeWrite(event(1, 'accepted'), 3)
    expect(places()).toEqual([0, 0])
  })
})
