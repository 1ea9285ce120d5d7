import { randomBytes } from 'node:crypto'
import { eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import type { TestDavit } from './davit.ts'
import { until } from './until.ts'

/**
 * Creates an event type that no other test publishes, so that endpoints get only the events of their own test. The controller
 * knows it when this returns.
 *
 * @param schema JSON Schema of its data; absent: anything is valid
 * @returns its name
 */
export async function ownEventType(davit: TestDavit, schema?: Record<string, unknown>): Promise<string> {
  const name = `test.t${randomBytes(6).toString('hex')}`
  await makeEventType(davit, name, schema)
  return name
}

/** Creates an event type with a given name. */
export async function makeEventType(
  davit: TestDavit,
  name: string,
  schema?: Record<string, unknown>,
): Promise<void> {
  await davit.api.create(eventTypes, {
    apiVersion: API_VERSION,
    kind: 'EventType',
    metadata: { name },
    spec: { description: 'For a test.', ...(schema ? { schema } : {}) },
  })
  const { catalogue } = davit.controller.webhooks
  await until(
    async () => catalogue.get(name),
    () => `the controller does not see the type ${name}`,
  )
}
