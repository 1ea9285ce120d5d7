import { beforeEach, describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { type EventType, eventType, eventTypes } from '../../apis/event-type.ts'
import type { RawObject, ResourceReader } from '../../kube/client.ts'
import { createSchemaValidator } from '../../lib/json-schema.ts'
import { EventTypeReconciler, eventTypeStatusOf } from './event-type-status.ts'
import { EventTypeStore, findEventType } from './event-types.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')

function typeObject(name: string, { type, second = 0 }: { type?: string; second?: number } = {}): RawObject {
  const creationTimestamp = `2026-01-31T11:00:${String(second).padStart(2, '0')}Z`
  return {
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'EventType',
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1', generation: 1, creationTimestamp },
    spec: { description: 'Something happened.', ...(type === undefined ? {} : { type }) },
  }
}

const parsed = (...args: Parameters<typeof typeObject>) => eventType.parse(typeObject(...args))

let store: EventTypeStore
let told: string[]

beforeEach(() => {
  store = new EventTypeStore()
  told = []
  store.listen(({ object, type }) => void told.push(`${object} ${type}`))
})

const nameOf = (type: string) => store.get(type)?.metadata.name

describe('the store of event types', () => {
  test('finds an object by its type, which is its name unless it says otherwise', () => {
    store.apply(parsed('invoice.paid'))
    store.apply(parsed('payment-failed', { type: 'invoice.payment_failed' }))
    expect(nameOf('invoice.paid')).toBe('invoice.paid')
    expect(nameOf('invoice.payment_failed')).toBe('payment-failed')
    expect(store.unknown(['invoice.payment_failed', 'payment-failed', '*'])).toEqual(['payment-failed'])
  })

  test('takes the older one of two with one type, in whatever order they come, until it is gone', () => {
    const older = parsed('b', { type: 'x_y', second: 1 })
    const newer = parsed('a', { type: 'x_y', second: 2 })
    store.apply(newer)
    expect(nameOf('x_y')).toBe('a')
    told = []
    store.apply(older)
    expect(nameOf('x_y')).toBe('b')
    expect(told.sort()).toEqual(['a x_y', 'b x_y'])
    store.remove(older)
    expect(nameOf('x_y')).toBe('a')
  })

  test('follows an object whose type changes', () => {
    store.apply(parsed('a', { type: 'before_it' }))
    store.apply(parsed('a', { type: 'after_it' }))
    expect([nameOf('before_it'), nameOf('after_it')]).toEqual([undefined, 'a'])
    expect(told).toContain('a before_it')
  })

  type Change = { name: string; type: string | undefined; second: number; removed: boolean }

  const objectOf = ({ name, type, second }: Change) =>
    parsed(name, { second, ...(type === undefined ? {} : { type }) })

  function storeAfter(changes: readonly Change[]): EventTypeStore {
    const made = new EventTypeStore()
    for (const change of changes) {
      if (change.removed) made.remove(objectOf(change))
      else made.apply(objectOf(change))
    }
    return made
  }

  test('has after any changes what a store has that saw only the last of each object', () => {
    const change = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      type: fc.constantFrom(undefined, 'a', 'x_y', 'y_z'),
      second: fc.nat(3),
      removed: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
        const last = [...new Map(changes.map((each) => [each.name, each])).values()]
        const [all, fresh] = [storeAfter(changes), storeAfter(last)]
        for (const type of ['a', 'b', 'c', 'x_y', 'y_z'])
          expect(all.get(type)?.metadata).toEqual(fresh.get(type)?.metadata)
      }),
    )
  })
})

describe('the status', () => {
  const statusOf = (name: string) => {
    const object = store.object(name) as EventType
    return eventTypeStatusOf(object, store.get(object.spec.type ?? name) ?? object, NOW)
  }

  test('of the one that counts is ready, and of the other says which one is used', () => {
    store.apply(parsed('older', { type: 'x_y', second: 1 }))
    store.apply(parsed('newer', { type: 'x_y', second: 2 }))
    expect(statusOf('older')).toMatchObject({
      type: 'x_y',
      observedGeneration: 1,
      conditions: [{ type: 'Ready', status: 'True', reason: 'Accepted' }],
    })
    const message = expect.stringContaining('EventType older already defines the type x_y')
    expect(statusOf('newer').conditions).toMatchObject([
      { type: 'Ready', status: 'False', reason: 'DuplicateType', message },
      { type: 'Stalled', status: 'True', reason: 'DuplicateType', message },
    ])
  })
})

describe('the status of a type with a schema', () => {
  async function statusWith(schema: object | undefined, older?: RawObject) {
    const cluster = new MemoryStore(() => NOW)
    const spec = { description: 'A build finished.', ...(schema ? { schema } : {}) }
    const made = await cluster.create(eventTypes, { metadata: { name: 'build.finished' }, spec })
    const parsedType = eventType.parse(made)
    store.apply(parsedType)
    if (older) store.apply(eventType.parse(older))
    const reconciler = new EventTypeReconciler({
      api: cluster,
      catalogue: store,
      validator: createSchemaValidator(),
      clock: new FakeClock(NOW),
    })
    await reconciler.reconcile('build.finished')
    return eventType.parse(await cluster.get(eventTypes, { name: 'build.finished' })).status
  }

  test.each([
    {
      schema: { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object' },
      want: '$schema must be https://json-schema.org/draft/2020-12/schema, or absent, but is "http://json-schema.org/draft-07/schema#".',
    },
    {
      schema: { $schema: 'https://json-schema.org/draft/2019-09/schema' },
      want: 'but is "https://json-schema.org/draft/2019-09/schema".',
    },
    {
      schema: { properties: { id: { pattern: '^[\\w-.]+$' } } },
      want: 'the pattern /^[\\w-.]+$/u is invalid: Invalid character class.',
    },
    {
      schema: { $ref: '#/$defs/none' },
      want: 'the reference #/$defs/none cannot be resolved in the schema.',
    },
    { schema: { type: 'text' }, want: 'schema/type must be equal to one of the allowed values' },
    { schema: { $ref: '#' }, want: 'a reference recurses endlessly.' },
  ])('that cannot be used says why, as soon as it exists: $want', async ({ schema, want }) => {
    const status = await statusWith(schema)
    const found = { reason: 'SchemaInvalid', message: expect.stringContaining(want) }
    expect(status?.conditions).toMatchObject([
      { type: 'Ready', status: 'False', ...found },
      { type: 'Stalled', status: 'True', ...found },
    ])
    expect(status?.conditions?.[0]?.message).toContain('rejects all events of type build.finished')
  })

  test.each([
    { what: 'none', schema: undefined },
    { what: 'an empty one', schema: {} },
    { what: 'one of 2020-12', schema: { $schema: 'https://json-schema.org/draft/2020-12/schema' } },
    { what: 'a keyword that is not known', schema: { 'x-owner': 'team' } },
  ])('is ready with $what', async ({ schema }) => {
    expect((await statusWith(schema))?.conditions).toMatchObject([
      { type: 'Ready', status: 'True', reason: 'Accepted' },
    ])
  })

  test('names the older type first, whose schema counts', async () => {
    const status = await statusWith({ type: 'text' }, typeObject('older', { type: 'build.finished' }))
    expect(status?.conditions?.[0]?.reason).toBe('DuplicateType')
  })
})

describe('a type that the watch has not brought yet', () => {
  function cluster(...objects: RawObject[]): ResourceReader {
    const get = async (_: unknown, { name }: { name: string }) =>
      objects.find(({ metadata }) => metadata.name === name)
    const list = async (type: unknown, { fieldSelector }: { fieldSelector?: string }) => {
      expect(type).toBe(eventTypes)
      const items = objects.filter(
        ({ spec }) => fieldSelector === `spec.type=${(spec as { type?: string }).type}`,
      )
      return { items, resourceVersion: '1' }
    }
    return { get, list } as unknown as ResourceReader
  }

  test('is read by its name or its type, and the older one counts', async () => {
    const objects = [
      typeObject('invoice.paid', { second: 2 }),
      typeObject('other', { type: 'invoice.paid', second: 1 }),
      typeObject('failed', { type: 'payment_failed' }),
      typeObject('renamed', { type: 'something.else' }),
    ]
    const find = async (type: string) => (await findEventType(cluster(...objects), type))?.metadata.name
    expect(await find('invoice.paid')).toBe('other')
    expect(await find('payment_failed')).toBe('failed')
    expect(await find('renamed')).toBeUndefined()
    expect(await find('none')).toBeUndefined()
  })
})
