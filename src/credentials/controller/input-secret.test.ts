import { describe, expect, test } from 'vitest'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { secrets } from '../../apis/core-kinds.ts'
import { ApiError, type RawObject } from '../../kube/client.ts'
import { deleteInputSecret, readInputSecret } from './input-secret.ts'

const REF = { namespace: 'acme', name: 'handover' }
const TYPE = 'davit.dev/registry-secret'
const base64 = (value: string | Uint8Array) => Buffer.from(value).toString('base64')

async function bed(object: Partial<RawObject> & { annotations?: object; deletionTimestamp?: string } = {}) {
  const store = new MemoryStore(() => 0)
  const { annotations, deletionTimestamp, ...rest } = object
  const metadata = { ...REF, annotations, ...(deletionTimestamp && { deletionTimestamp }) }
  await store.create(secrets, { type: TYPE, data: { secret: base64('the value') }, ...rest, metadata })
  return store
}

const markOf = (of: { secretUid: string; resourceVersion: string; value: string }) =>
  `${of.secretUid} ${of.resourceVersion} ${of.value.length}`
const read = (store: MemoryStore, ref: { namespace: string; name: string | undefined } = REF) =>
  readInputSecret(store, ref, undefined, markOf)

describe('a Secret that is handed over', () => {
  test('is read with what names this very version of it, and its value is in no text', async () => {
    const found = await read(await bed())
    const named = { uid: 'uid-101', resourceVersion: '101', mark: 'uid-101 101 9' }
    expect(found.facts).toEqual({
      state: 'usable',
      retained: false,
      isSameValue: false,
      createdAt: 0,
      ...named,
    })
    expect(found.value?.reveal()).toBe('the value')
    expect(JSON.stringify(found)).not.toContain('the value')
  })

  test('has the value that was stored where its mark is that of the version of then', async () => {
    const stored = { uid: 'uid-101', resourceVersion: '99', mark: 'uid-101 99 9' }
    for (const [change, isSameValue] of [
      [{}, true],
      [{ mark: 'uid-101 99 8' }, false],
      [{ mark: 'uid-101 101 9' }, false],
      [{ mark: undefined }, false],
      [{ uid: 'uid-100' }, false],
      // Of a Secret of the same name that was deleted.
      [{ uid: 'uid-100', mark: 'uid-100 99 9' }, true],
      [{ uid: 'uid-100', mark: 'uid-100 99 8' }, false],
    ] as const) {
      const { facts } = await readInputSecret(await bed(), REF, { ...stored, ...change }, markOf)
      expect(facts).toMatchObject({ isSameValue, mark: 'uid-101 101 9' })
    }
  })

  test.each([
    ['as downloaded', '{\n  "a": {\n    "b": 1\n  }\n}\n'],
    ['with the line ends of Windows', '{\r\n "a": {\r\n "b": 1\r\n }\r\n}'],
    ['with a byte order mark', '\ufeff{\n"a": {\t"b": 1\n}\n}\n'],
    ['in one line that ends', '{ "a": { "b": 1 } }\n'],
  ])('with a key %s has the value that is stored', async (_, given) => {
    const want = '{ "a": { "b": 1 } }'
    const { value, facts } = await read(await bed({ data: { secret: base64(given) } }))
    const text = value?.reveal() ?? ''
    expect([JSON.parse(text), /\p{Cc}/u.test(text)]).toEqual([JSON.parse(want), false])
    expect(facts).toMatchObject({ state: 'usable', mark: `uid-101 101 ${text.length}` })
  })

  test.each<{ given: string; metadata: object; want: object }>([
    {
      given: 'an owner whose controller creates it',
      metadata: {
        ownerReferences: [
          { kind: 'Namespace', name: 'other', controller: false },
          { kind: 'ExternalSecret', name: 'ghcr', controller: true },
        ],
      },
      want: { owner: 'ExternalSecret ghcr' },
    },
    {
      given: 'an owner with whom it is deleted',
      metadata: { ownerReferences: [{ kind: 'ExternalSecret', name: 'ghcr' }] },
      want: {},
    },
    {
      given: 'several writers',
      metadata: {
        managedFields: [
          {
            manager: 'newer',
            operation: 'Update',
            time: '2026-01-02T00:00:00Z',
            fieldsV1: { 'f:data': {} },
          },
          {
            manager: 'older',
            operation: 'Apply',
            time: '2026-01-01T00:00:00Z',
            fieldsV1: { 'f:data': {} },
          },
          { manager: 'labels', time: '2026-01-03T00:00:00Z', fieldsV1: { 'f:metadata': {} } },
        ],
      },
      want: { writer: 'newer' },
    },
    { given: 'managed fields that make no sense', metadata: { managedFields: [7, null, {}] }, want: {} },
  ])('with $given is read with $want', async ({ metadata, want }) => {
    const store = await bed({ data: { secret: base64('the value') } })
    await store.patch(secrets, REF, { metadata })
    const { facts } = await read(store)
    const { owner, writer } = facts as { owner?: string; writer?: string }
    expect({ ...(owner && { owner }), ...(writer && { writer }) }).toEqual(want)
  })

  test('is kept where its owner says so, in just that word', async () => {
    for (const [value, retained] of [
      ['true', true],
      ['True', false],
      ['', false],
    ] as const) {
      const store = await bed({ annotations: { 'davit.dev/retain': value } })
      expect((await read(store)).facts).toMatchObject({ retained })
    }
  })

  test.each([
    { given: 'another type', object: { type: 'Opaque' }, want: { state: 'wrong-type', type: 'Opaque' } },
    { given: 'no type', object: { type: undefined }, want: { state: 'wrong-type', type: 'Opaque' } },
    { given: 'another key', object: { data: { password: base64('x') } }, want: { state: 'no-key' } },
    { given: 'no data', object: { data: undefined }, want: { state: 'no-key' } },
    { given: 'an end', object: { deletionTimestamp: '2026-01-01T00:00:00Z' }, want: { state: 'missing' } },
    { given: 'an empty value', object: { data: { secret: '' } }, want: { state: 'problem' } },
    {
      given: 'bytes',
      object: { data: { secret: base64(Uint8Array.of(0xff, 0xfe)) } },
      want: { state: 'problem' },
    },
    {
      given: 'a mark of bytes before',
      object: { data: { secret: base64('\ufeffx') } },
      want: { state: 'problem' },
    },
  ])('with $given is not stored', async ({ object, want }) => {
    const found = await read(await bed(object as object))
    expect(found).toEqual({ facts: expect.objectContaining(want) })
  })

  test('is missing where it is not there, and not asked for where none is named', async () => {
    const store = await bed()
    expect(await read(store, { ...REF, name: 'another' })).toEqual({ facts: { state: 'missing' } })
    expect(await read(store, { namespace: 'acme', name: undefined })).toEqual({
      facts: { state: 'none' },
    })
  })

  test('is not taken for missing when the API server does not answer', async () => {
    const get = async () => {
      throw new ApiError('Unavailable', 'away')
    }
    await expect(readInputSecret({ get } as never, REF, undefined, markOf)).rejects.toThrow('away')
  })

  test('that Davit may not read is not taken for missing', async () => {
    const get = async () => {
      throw new ApiError('Forbidden', 'no right')
    }
    expect((await readInputSecret({ get } as never, REF, undefined, markOf)).facts).toEqual({
      state: 'forbidden',
    })
  })

  test('is deleted as the version that was stored, and no other', async () => {
    const store = await bed()
    await store.patch(secrets, REF, { data: { secret: base64('newer') } })
    await deleteInputSecret(store, REF, { uid: 'uid-101', resourceVersion: '101' })
    expect(store.all(secrets)).toHaveLength(1)
    await deleteInputSecret(store, REF, { uid: 'another', resourceVersion: '102' })
    expect(store.all(secrets)).toHaveLength(1)
    await deleteInputSecret(store, REF, { uid: 'uid-101', resourceVersion: '102' })
    await deleteInputSecret(store, REF, { uid: 'uid-101', resourceVersion: '102' })
    expect(store.all(secrets)).toHaveLength(0)
  })
})
