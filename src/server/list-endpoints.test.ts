import { expect, test } from 'vitest'
import { ACME, EndpointsBed } from '../../test/support/endpoints-bed.ts'

test('a walk through the list asks the API server for nothing, however many pages it has', async () => {
  const bed = new EndpointsBed()
  const made: string[] = []
  for (let number = 0; number < 7; number += 1) {
    made.push((await bed.make()).endpointId)
    bed.clock.advance(1)
  }
  const before = bed.api.calls.length
  const walked: string[] = []
  let after: string | undefined
  do {
    const page = await bed.endpoints.list(ACME, { limit: 3, after })
    walked.push(...page.endpoints.map(({ endpointId }) => endpointId))
    after = page.next
  } while (after !== undefined)
  expect(walked).toEqual(made.toSorted())
  expect(bed.api.calls.length).toBe(before)
})

test('a list has what this process made, changed and deleted a moment ago', async () => {
  const bed = new EndpointsBed()
  const { secret: _, ...gone } = await bed.make()
  const { secret: __, ...id } = await bed.make()
  bed.away = true
  const changed = bed.endpoints.change(id, { description: 'changed' }, {}).catch(() => undefined)
  for (let turn = 0; turn < 20; turn += 1) await bed.turn()
  await bed.endpoints.remove(gone, {})
  const { endpoints } = await bed.endpoints.list(ACME, { limit: 10 })
  expect(endpoints).toMatchObject([{ endpointId: id.endpointId, description: 'changed' }])
  await bed.clock.elapse(5000)
  await changed
})

test('every endpoint is identified but those that are being deleted', async () => {
  const bed = new EndpointsBed()
  const { secret: _, ...gone } = await bed.make()
  const { endpointId } = await bed.make()
  await bed.endpoints.remove(gone, {})
  const found = await bed.endpoints.identifyAll(ACME)
  expect(found).toEqual([{ namespace: ACME, name: endpointId.slice('whe_'.length), uid: expect.any(String) }])
  bed.behind = 'the server is still loading endpoints'
  await expect(bed.endpoints.identifyAll(ACME)).rejects.toMatchObject({ code: 'overloaded' })
})

test('a list is refused while it is not known which endpoints there are', async () => {
  const bed = new EndpointsBed()
  bed.behind = 'the server is still loading endpoints'
  await expect(bed.endpoints.list(ACME, { limit: 10 })).rejects.toMatchObject({
    code: 'overloaded',
    retryAfter: 2,
    detail: 'The server is still loading endpoints. Retry the request.',
  })
})
