import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { ScriptedStore } from '../../test/support/scripted-store.ts'
import { objectMeta } from '../apis/meta.ts'
import { MutationCache, ObjectGoneError, ObjectWriter } from './mutation-cache.ts'

const TYPE = { group: 'example.com', version: 'v1', plural: 'boats', namespaced: true }
const REF = { namespace: 'acme', name: 'ferry' }
const boat = z.object({ metadata: objectMeta, status: z.object({ state: z.string().optional() }).optional() })
type Boat = z.infer<typeof boat>

let store: ScriptedStore
let book: MutationCache<Boat>
let writer: ObjectWriter<Boat>
let ferry: Boat

beforeEach(async () => {
  store = new ScriptedStore(() => 0)
  book = new MutationCache()
  writer = new ObjectWriter({ resources: store, type: TYPE, decode: (raw) => boat.parse(raw), cache: book })
  ferry = boat.parse(await store.create(TYPE, { metadata: REF }))
  book.apply(ferry)
})

describe('a write', () => {
  test('is known to the book at once, and nothing is written where nothing changed', async () => {
    const written = await writer.updateStatus(ferry, { state: 'afloat' })
    expect(book.get('acme', 'ferry')).toEqual(written)
    const { version } = store
    expect(await writer.updateStatus(written, { state: 'afloat' })).toBe(written)
    expect(store.version).toBe(version)
  })

  test('on another version than is there is refused', async () => {
    await writer.updateFinalizers(ferry, ['example.com/holds'])
    await expect(writer.updateStatus(ferry, { state: 'afloat' })).rejects.toMatchObject({ kind: 'Conflict' })
    await expect(writer.updateFinalizers(ferry, [])).rejects.toMatchObject({ kind: 'Conflict' })
    expect((await writer.read(ferry)).metadata.finalizers).toEqual(['example.com/holds'])
  })
})

test('what is gone is told as such, also where another one has its name', async () => {
  await store.delete(TYPE, REF)
  for (const call of [() => writer.read(ferry), () => writer.updateStatus(ferry, { state: 'afloat' })])
    await expect(call()).rejects.toBeInstanceOf(ObjectGoneError)
  await store.create(TYPE, { metadata: REF })
  await expect(writer.read(ferry)).rejects.toBeInstanceOf(ObjectGoneError)
  expect(book.get('acme', 'ferry')).toBe(ferry)
})
