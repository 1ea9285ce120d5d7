import { expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { ACME, EndpointsBed } from '../../test/support/endpoints-bed.ts'
import { calling } from '../../test/support/faulty-api.ts'
import { webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'

/** A change that is about to be written when somebody deletes the endpoint and makes another under its name, or none. */
async function changed(how: { ifMatch?: string; isMadeAgain: boolean }) {
  const bed = new EndpointsBed()
  const { secret: _, ...id } = await bed.make()
  const ref = { namespace: ACME, name: id.endpointId.slice('whe_'.length) }
  let go: () => void = () => undefined
  const hold = new Promise<void>((resolve) => {
    go = resolve
  })
  bed.api.fail(calling('patch', webhookEndpoints), { hold })
  const { etag } = await bed.endpoints.get(id)
  const ifMatch = how.ifMatch === undefined ? {} : { ifMatch: etag }
  const answer = codeOf(bed.endpoints.change(id, { description: 'new' }, ifMatch))
  for (let turn = 0; turn < 20; turn += 1) await bed.turn()
  const { spec } = await bed.store.get(webhookEndpoints, ref)
  await bed.store.delete(webhookEndpoints, ref)
  if (how.isMadeAgain) await bed.store.create(webhookEndpoints, { metadata: ref, spec })
  go()
  await bed.late(answer)
  const code = await answer
  const [stored] = bed.store.all(webhookEndpoints)
  return { code, description: stored && webhookEndpoint.parse(stored).spec.description }
}

test('a change finds the endpoint that was made anew under the name', async () => {
  expect(await changed({ isMadeAgain: true })).toEqual({ code: 'answered', description: 'new' })
})

test('a change for a version that was seen is not for the one that was made anew', async () => {
  const want = { code: 'precondition_failed', description: undefined }
  expect(await changed({ ifMatch: 'seen', isMadeAgain: true })).toEqual(want)
})

test('a change of what has gone finds nothing', async () => {
  expect(await changed({ isMadeAgain: false })).toEqual({ code: 'not_found', description: undefined })
})
