/** At which version each endpoint became what it is for those who publish, as the watch has shown it. */
import { DISABLE_ANNOTATION, ENABLE_ANNOTATION, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'

export type EndpointProgressOptions = {
  /** Everything up to this version was handed on by the watch. */
  seen: () => number
  /** Called when something changed that decides on what an endpoint gets. */
  onChange: () => void
}

/** Somebody may wait for the deletion of these. */
const MAX_REMOVED = 10_000

type Mark = { text: string; version: number }

export class EndpointProgress {
  readonly #options: EndpointProgressOptions
  /** By UID. */
  readonly #marks = new Map<string, Mark>()
  /** Versions at which endpoints went, by UID; those that went of late. */
  readonly #removed = new Map<string, number | { after: number }>()

  constructor(options: EndpointProgressOptions) {
    this.#options = options
  }

  /** The watch has shown it. */
  applied(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion, deletionTimestamp } = endpoint.metadata
    const text = markOf(endpoint)
    if (this.#marks.get(uid)?.text === text) return
    const version = Number(resourceVersion)
    this.#marks.set(uid, { text, version })
    if (deletionTimestamp !== undefined) this.#noteRemoved(uid, version)
    this.#options.onChange()
  }

  /** The watch has shown its end. @param version at which; absent: it is gone from a list, whose version is seen when it has ended */
  deleted({ metadata: { uid } }: WebhookEndpoint, version?: number): void {
    this.#marks.delete(uid)
    if (!this.#removed.has(uid)) this.#noteRemoved(uid, version ?? { after: this.#options.seen() })
    this.#options.onChange()
  }

  /** Whoever has seen this version knows the endpoint as it is given here: later versions changed what does not matter. */
  versionOf(endpoint: WebhookEndpoint): number {
    const { uid, resourceVersion } = endpoint.metadata
    const version = Number(resourceVersion)
    const mark = this.#marks.get(uid)
    const isKnown =
      mark?.text === markOf(endpoint) && mark.version < version && this.#options.seen() >= version
    return isKnown ? mark.version : version
  }

  /** Whoever has seen this version knows that the endpoint is gone; undefined while the watch has not shown it. */
  removalOf(uid: string): number | undefined {
    const noted = this.#removed.get(uid)
    if (typeof noted !== 'object') return noted
    const seen = this.#options.seen()
    if (seen <= noted.after) return undefined
    this.#removed.set(uid, seen)
    return seen
  }

  #noteRemoved(uid: string, version: number | { after: number }): void {
    this.#removed.set(uid, version)
    const [oldest] = this.#removed.keys()
    if (this.#removed.size > MAX_REMOVED && oldest !== undefined) this.#removed.delete(oldest)
  }
}

/** Its status does not matter: what a controller writes there changes nothing that a request by REST has asked for. */
function markOf({ metadata }: WebhookEndpoint): string {
  const { generation, deletionTimestamp, annotations = {} } = metadata
  return JSON.stringify([
    generation,
    deletionTimestamp !== undefined,
    annotations[ENABLE_ANNOTATION],
    annotations[DISABLE_ANNOTATION],
  ])
}
