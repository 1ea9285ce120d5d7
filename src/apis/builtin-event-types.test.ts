import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { builtinEventTypes } from './builtin-event-types.ts'
import { eventType } from './event-type.ts'
import { EVENT_TYPE } from './ids.ts'

const ajv = new Ajv2020({ strict: true, allErrors: true })

const entries = builtinEventTypes.map((entry) => ({ name: entry.metadata.name, entry }))

describe('the catalogue', () => {
  test('has the types that the interface names, and those it leaves to the catalogue', () => {
    expect(entries.map(({ name }) => name).sort()).toEqual([
      'billing.updated',
      'environment.started',
      'environment.stopped',
      'member.joined',
      'webhook.endpoint.disabled',
      'webhook.ping',
    ])
  })

  test.for(entries)('$name is an EventType', ({ name, entry }) => {
    expect(name).toMatch(EVENT_TYPE)
    expect(eventType.safeParse(entry).error).toBeUndefined()
  })

  test.for(entries)('$name has an example that fits its schema', ({ entry }) => {
    const fits = ajv.compile(entry.spec.schema ?? false)
    expect(fits(entry.spec.example), JSON.stringify(fits.errors)).toBe(true)
  })

  test.for(entries)('$name has an example with every field that its schema describes', ({ entry }) => {
    const described = Object.keys(Object(entry.spec.schema?.properties))
    expect(Object.keys(Object(entry.spec.example)).sort()).toEqual(described.sort())
  })

  test.for(entries)(
    '$name requires no field, allows more, and refuses a field of another type',
    ({ entry }) => {
      const fits = ajv.compile(entry.spec.schema ?? false)
      const [field = ''] = Object.keys(Object(entry.spec.example))
      expect(fits({})).toBe(true)
      expect(fits({ addedLater: [1, null] })).toBe(true)
      expect(fits({ [field]: [] })).toBe(false)
      expect(fits.errors?.map((error) => error.instancePath)).toEqual([`/${field}`])
    },
  )
})
