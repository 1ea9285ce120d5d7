/** Waits until the controller has seen what was written: what an answer says is in force when it is read. */
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import type { Clock } from '../lib/ports-clock.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'

type Waiter = (endpoint: WebhookEndpoint | undefined) => void

export class EndpointAcknowledgements {
  readonly #clock: Clock
  readonly #directory: EndpointDirectory
  /** By UID. */
  readonly #waiters = new Map<string, Set<Waiter>>()

  constructor(directory: EndpointDirectory, clock: Clock) {
    this.#clock = clock
    this.#directory = directory
    const tell = (uid: string, endpoint: WebhookEndpoint | undefined) => {
      for (const waiter of [...(this.#waiters.get(uid) ?? [])]) waiter(endpoint)
    }
    directory.listen({
      changed: ({ endpoint }) => tell(endpoint.metadata.uid, endpoint),
      removed: ({ metadata }) => tell(metadata.uid, undefined),
    })
  }

  /** @returns the endpoint once it is as wanted, `gone` when it is deleted, `late` after `ms` milliseconds */
  when(
    of: { namespace: string; name: string; uid: string },
    wanted: (endpoint: WebhookEndpoint) => boolean,
    ms: number,
  ): Promise<WebhookEndpoint | 'gone' | 'late'> {
    const known = this.#directory.find(of)?.endpoint
    // Whoever waits has just read or written it: it went since.
    if (!known) return Promise.resolve('gone')
    if (wanted(known)) return Promise.resolve(known)
    return new Promise((resolve) => {
      const end = (answer: WebhookEndpoint | 'gone' | 'late') => {
        stop()
        const waiters = this.#waiters.get(of.uid)
        waiters?.delete(waiter)
        if (waiters?.size === 0) this.#waiters.delete(of.uid)
        resolve(answer)
      }
      const waiter: Waiter = (endpoint) => {
        if (!endpoint) end('gone')
        else if (wanted(endpoint)) end(endpoint)
      }
      const stop = this.#clock.after(ms, () => end('late'))
      const waiters = this.#waiters.get(of.uid) ?? new Set<Waiter>()
      this.#waiters.set(of.uid, waiters.add(waiter))
    })
  }
}
