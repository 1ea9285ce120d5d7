import { expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { queueDelivery } from '../../../test/support/queue-deliveries.ts'
import { BegunAttempts, CAREFUL_FROM_ENDS, MAX_BEGUN } from '../log/crash-series.ts'
import { CarefulAttempts } from './careful-attempts.ts'
import { EndpointQueue } from './endpoint-queue.ts'

function start() {
  const begun: string[] = []
  const careful = new CarefulAttempts({
    claims: { endsOf: () => CAREFUL_FROM_ENDS },
    begun: new BegunAttempts(),
    outcomes: { record: async () => 1 },
    clock: new FakeClock(),
    giveUp: new AbortController().signal,
    attemptMs: 20_000,
  })
  const ends: (() => void)[] = []
  const begin = (namespace: string, count: number) => {
    const queue = new EndpointQueue({ namespace, name: 'one', uid: `uid of ${namespace}` })
    for (let number = 0; number < count; number += 1)
      void careful.begin(queueDelivery(queue, number)).then((end) => {
        begun.push(namespace)
        ends.push(end)
      })
  }
  return { begun, begin, ends }
}

it.each([
  { given: { slow: 256 } },
  { given: { slow: 5000 } },
  { given: { slow: 300, lazy: 300 } },
  { given: { slow: 200, lazy: 200, idle: 200, last: 200 } },
])('organizations whose attempts do not end leave places to begin for others: $given', async ({ given }) => {
  const { begun, begin, ends } = start()
  for (const [namespace, count] of Object.entries(given)) begin(namespace, count)
  await settle()
  begin('other', 1)
  await settle()
  expect(begun.at(-1)).toBe('other')
  expect(begun.length).toBeLessThanOrEqual(MAX_BEGUN)
  for (let end = ends.shift(); end; end = ends.shift()) {
    end()
    await settle()
  }
  const all = Object.values(given).reduce((sum, count) => sum + count, 1)
  expect(begun).toHaveLength(all)
})
