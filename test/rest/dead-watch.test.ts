/** A REST server whose watches go silent while its calls succeed: as behind a firewall that drops its state. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type LiveServer, startLiveServer } from '../support/live-server.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'

/** Open watches hear nothing more after the cut, until their client gives them up. */
class CutWatches {
  readonly api: KubernetesClient
  readonly #streams = new Set<{ isCut: boolean }>()

  constructor(inner: KubernetesClient) {
    const streams = this.#streams
    this.api = {
      ...inner,
      async *watch(type, query, version, signal) {
        const stream = { isCut: false }
        streams.add(stream)
        for await (const events of inner.watch(type, query, version, signal)) {
          if (!stream.isCut) yield events
        }
      },
    }
  }

  cut(): void {
    for (const stream of this.#streams) stream.isCut = true
  }
}

let davit: TestDavit
let watches: CutWatches
let server: LiveServer
let other: LiveServer
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('rest-dead-watch')
  watches = new CutWatches(davit.api)
  const { organization, namespace, clock, logLines } = davit
  server = await startLiveServer({ organization, namespace, clock, logLines, api: watches.api })
  other = await startLiveServer(davit)
})

afterAll(async () => {
  await Promise.all([server?.stop(), other?.stop()])
  await davit?.stop()
  await receiver?.close()
})

function publish(idempotencyKey?: string) {
  return server.publishing.publish(davit.organization, { type: TYPE, dataText: '{}' }, { idempotencyKey })
}

test('what it has written tells it so, and it sees all that it missed', async () => {
  await publish('before')
  watches.cut()
  const draft = { url: `${receiver.url}/missed`, eventTypes: [TYPE] }
  // Answered when the one with dead watches knows it as well.
  const made = other.endpoints.create(davit.organization, draft, {})
  // A request with a key is answered after the watch has delivered it: never, without new watches.
  const keyed = publish('after')
  expect(await keyed).toMatchObject({ replayed: false })
  const { endpoint } = await made
  expect(davit.logLines.filter((line) => line.includes('reopening watches'))).not.toEqual([])
  await until(
    async () => server.problems().length === 0 || undefined,
    () => `left: ${server.problems()}`,
  )
  // The watch of endpoints is open again; missed events arrive a moment later.
  const shown = async () => (await server.endpoints.list(davit.organization, { limit: 10 })).endpoints
  await until(
    async () => (await shown()).length > 0 || undefined,
    () => 'the endpoint that was missed does not come',
  )
  expect((await shown()).map(({ endpointId }) => endpointId)).toEqual([endpoint.endpointId])
  expect(await publish()).toMatchObject({ deliveries: 1 })
  await receiver.waitFor(1, { path: '/missed' })
})
