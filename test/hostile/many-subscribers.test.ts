/** One event for 300 endpoints: each gets it once, signed with its own secret. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'

const SUBSCRIBERS = 300
const AT_A_TIME = 20
const LIMIT_MS = 120_000

let davit: TestDavit
let receiver: Receiver
const secrets = new Map<string, string>()

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('many-subscribers')
  const names = Array.from({ length: SUBSCRIBERS }, (_, i) => `subscriber-${i}`)
  const making = names.values()
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      for (const name of making) {
        const spec = {
          url: `${receiver.url}/${name}`,
          eventTypes: ['billing.updated'],
        }
        secrets.set(name, (await davit.endpoint(name, spec)).secret)
      }
    }),
  )
}, LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

test(
  'arrives at each once',
  async () => {
    const segments = async () =>
      (await davit.api.list(deliverySegments, { namespace: davit.namespace })).items.length
    const before = await segments()
    const published = performance.now()
    const event = await davit.publish('billing.updated', { n: 1 })
    const requests = await receiver.waitFor(SUBSCRIBERS, { timeoutMs: LIMIT_MS })
    const last = Math.max(...requests.map(({ receivedAt }) => receivedAt))
    // Throws if a signature is not from that secret.
    const verified = requests.map((request) =>
      verifyWebhook(request, secrets.get(request.path.slice(1)) ?? ''),
    )
    await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
    const paths = new Set(receiver.requests.map(({ path }) => path))
    tellFigures('many-subscribers', {
      subscribers: SUBSCRIBERS,
      received: paths.size,
      'received twice': receiver.requests.length - paths.size,
      'verified with their own key': verified.length,
      'segments of the log': (await segments()) - before,
      'ms to the last receipt': Math.round(last - published),
    })
    expect(paths.size).toBe(SUBSCRIBERS)
    expect(receiver.requests).toHaveLength(SUBSCRIBERS)
    expect(verified).toHaveLength(SUBSCRIBERS)
  },
  LIMIT_MS,
)
