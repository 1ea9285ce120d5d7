/** The types that ship, by what can be published under them: fields are described, none is required, more are allowed. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { builtinEventTypes } from '../../src/apis/builtin-event-types.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

type Schema = { properties: Record<string, { type: string; description: string }> }

/** Davit alone publishes the others. */
const PUBLISHED = builtinEventTypes.filter(({ metadata }) => !metadata.name.startsWith('webhook.'))
const TYPES = PUBLISHED.map(({ metadata, spec }) => ({
  name: metadata.name,
  example: spec.example as Record<string, unknown>,
  fields: Object.entries((spec.schema as Schema).properties),
}))

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('shipped-schemas')
  await davit.endpoint('all', { url: `${receiver.url}/all`, eventTypes: TYPES.map(({ name }) => name) })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** @returns whether it was accepted, and the words of a refusal */
async function published(type: string, data: unknown): Promise<{ accepted: boolean; words: string }> {
  const { status } = await davit.publish(type, data)
  const words = (status?.conditions ?? []).map(({ message }) => message).join(' ')
  return { accepted: status?.state !== 'refused', words }
}

describe.each(TYPES)('the schema of $name', ({ name, example, fields }) => {
  test('takes its example, nothing at all, each field alone, and fields that it does not know', async () => {
    const payloads = [
      example,
      {},
      ...Object.entries(example).map(([field, value]) => ({ [field]: value })),
      { ...example, unheardOf: { of: ['any', 'shape', 1, null] } },
    ]
    for (const data of payloads) {
      const verdict = await published(name, data)
      expect({ data, ...verdict }).toMatchObject({ data, accepted: true })
    }
    const arrived = () =>
      receiver
        .received('/all')
        .map(({ body }) => JSON.parse(body.toString()) as { type: string; data: unknown })
    await expect
      .poll(() => arrived().flatMap(({ type, data }) => (type === name ? [data] : [])), { timeout: 20_000 })
      .toEqual(expect.arrayContaining(payloads))
  })

  test('refuses any field of another type, by its place', async () => {
    expect(fields.length).toBeGreaterThan(2)
    for (const [field] of fields) {
      const { accepted, words } = await published(name, { ...example, [field]: { not: 'a text' } })
      expect({ field, accepted }).toEqual({ field, accepted: false })
      expect(words).toContain(field)
    }
  })

  test('has words for each field, where people look it up', async () => {
    for (const [field, { description }] of fields)
      expect(`${field}: ${description}`).toMatch(/^(\w+): \1 is .{5,}\.$/)
  })
})
