import { beforeEach, expect, test } from 'vitest'
import { NO_REPLICAS } from '../../test/support/endpoints-bed.ts'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { API_VERSION } from '../apis/meta.ts'
import { webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError, type ApiErrorKind, UnreadableError } from '../kube/client.ts'
import { etagOf } from '../lib/text.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { readEndpoint } from './endpoint-resource.ts'
import { EndpointAcknowledgements, removeEndpoint } from './endpoint-writes.ts'
import { retryOnConflict } from './objects.ts'

const ID = { organization: 'acme', endpointId: 'whe_damaged' }

let resources: MemoryStore
let directory: EndpointDirectory
let uid: string

/** An endpoint with a spec of which nothing can be made. */
beforeEach(async () => {
  resources = new MemoryStore(() => 0)
  directory = new EndpointDirectory()
  const metadata = { namespace: 'acme', name: 'damaged' }
  const kind = { apiVersion: API_VERSION, kind: 'WebhookEndpoint' }
  const made = await resources.create(webhookEndpoints, { ...kind, metadata, spec: { url: 7 } })
  uid = made.metadata.uid ?? ''
})

function context() {
  const clock = new FakeClock()
  const acknowledgements = new EndpointAcknowledgements(directory, clock)
  const controllers = { anyLives: async () => true }
  return { resources, directory, replicas: NO_REPLICAS, acknowledgements, controllers, clock }
}

test('an endpoint that cannot be read can be deleted', async () => {
  await expect(readEndpoint({ resources, directory }, ID)).rejects.toThrow(UnreadableError)
  await removeEndpoint(context(), ID, { ifMatch: undefined })
  expect(resources.all(webhookEndpoints)).toEqual([])
  await expect(removeEndpoint(context(), ID, { ifMatch: undefined })).rejects.toMatchObject({
    code: 'not_found',
  })
})

test('it is deleted for the version that was seen, and for no other', async () => {
  const remove = (ifMatch: string) => removeEndpoint(context(), ID, { ifMatch })
  await expect(remove('"another"')).rejects.toMatchObject({ code: 'precondition_failed' })
  expect(resources.all(webhookEndpoints)).toHaveLength(1)
  // As a proxy that compresses has changed it.
  const etag = etagOf({ uid, generation: 1 })
  await expect(remove(`W/${etag}`)).rejects.toMatchObject({
    code: 'precondition_failed',
    detail: expect.stringMatching(/^If-Match contains a weak ETag, which never matches\./),
  })
  await remove(etag)
  expect(resources.all(webhookEndpoints)).toEqual([])
})

test.each<[ApiErrorKind]>([['Conflict'], ['AlreadyExists'], ['NotFound']])(
  'what was decided on something that has changed or gone meanwhile is decided again: %s',
  async (kind) => {
    let tries = 0
    const done = await retryOnConflict(async () => {
      tries += 1
      if (tries === 1) throw new ApiError(kind, 'secrets "acme.damaged"')
      return 'done'
    })
    expect([done, tries]).toEqual(['done', 2])
  },
)

test('who is disturbed all the time is told to come again', async () => {
  const disturbed = retryOnConflict(async () => {
    throw new ApiError('NotFound', 'secrets "acme.damaged"')
  })
  await expect(disturbed).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1 })
})
