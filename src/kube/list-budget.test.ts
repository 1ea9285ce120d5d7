import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { StreamingStore } from './store.ts'

type Held = { version: number; body: number | undefined }

const MAX = 100

function streamOf(bodies: readonly number[]) {
  const passed: Held[] = []
  let heldAtMost = 0
  const held = new Set<Held>()
  const bytesHeld = () => [...held].reduce((sum, { body = 0 }) => sum + body, 0)
  const store = new StreamingStore<Held>(
    { applied: (_key, object) => void passed.push(object), gone: () => undefined },
    {
      maxBytes: MAX,
      bytesOf: ({ body = 0 }) => body,
      lighten: (object) => {
        held.delete(object)
        return { ...object, body: undefined }
      },
    },
  )
  store.beginList()
  // Backwards, as the log is listed.
  for (const [index, body] of bodies.entries()) {
    const version = bodies.length - index
    const object = { version, body }
    held.add(object)
    store.apply({ key: String(version), version, uid: String(version) }, object)
    heldAtMost = Math.max(heldAtMost, bytesHeld())
  }
  for (const _ of store.endList(bodies.length)) {
  }
  return { passed, heldAtMost, store }
}

test('a list that goes backwards keeps the oldest bodies within its budget, and passes everything on in order', () => {
  const { passed } = streamOf([60, 50, 40, 30])
  expect(passed).toEqual([
    { version: 1, body: 30 },
    { version: 2, body: 40 },
    { version: 3, body: undefined },
    { version: 4, body: undefined },
  ])
})

test('no list holds more than its budget, and none loses an object', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(120), { maxLength: 40 }), (bodies) => {
      const { passed, heldAtMost } = streamOf(bodies)
      expect(heldAtMost).toBeLessThanOrEqual(MAX)
      expect(passed.map(({ version }) => version)).toEqual(bodies.map((_, index) => index + 1))
    }),
  )
})

test('what comes after the list is passed on whole', () => {
  const { passed, store } = streamOf([60, 50])
  store.apply({ key: '9', version: 9, uid: '9' }, { version: 9, body: 500 })
  expect(passed.at(-1)).toEqual({ version: 9, body: 500 })
})
