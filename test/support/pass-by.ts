import type { TestDavit } from './davit.ts'
import type { Receiver } from './receiver.ts'
import { until } from './until.ts'

/**
 * Resolves when Davit has completed a kubectl request, from the watch to the receiver: everything that it was about to send
 * before has been sent. For tests that prove that nothing is sent.
 */
export async function passBy(davit: TestDavit, receiver: Receiver): Promise<void> {
  const path = '/pass-by'
  const before = receiver.received(path).length
  if (!davit.controller.webhooks.directory.get(davit.organization, 'pass-by')) {
    await davit.endpoint('pass-by', { url: receiver.url + path, eventTypes: ['webhook.ping'] })
  }
  await davit.annotate('pass-by', { 'davit.dev/ping-requested-at': davit.time() })
  await until(
    async () => receiver.received(path)[before],
    () => 'the ping did not arrive',
  )
}
