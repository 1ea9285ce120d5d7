import { readRedeliverRequest, readRequest } from '../../apis/annotations.ts'
import { messageId } from '../../apis/ids.ts'
import { PING_ANNOTATION, REDELIVER_ANNOTATION } from '../../apis/webhook-endpoint.ts'
import type { ResourceReader } from '../../kube/client.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { statusPatch } from '../../kube/status.ts'
import type { Clock } from '../../lib/clock.ts'
import { findOriginal, type Publisher } from '../events/publish.ts'
import {
  type EndpointDirectory,
  type EndpointStatusWriter,
  type EndpointView,
  endpointReference,
} from './directory.ts'
import type { EventTypeStore } from './event-types.ts'
import type { DisabledNotifier } from './notifier.ts'
import { endpointStatus, type Problem } from './plan.ts'
import type { SigningKeyReconciler } from './signing-keys.ts'

/** Pings and redeliveries asked for by annotation, and the news of automatic disabling. */

export type RequestsOptions = {
  publisher: Publisher
  events: EventRecorder
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
}

export class EndpointRequests {
  readonly #options: RequestsOptions

  constructor(options: RequestsOptions) {
    this.#options = options
  }

  /** Acts on what is new. @returns the values that are answered now @throws ApiError what may pass by itself */
  async handle(view: EndpointView): Promise<{ ping?: string; redeliver?: string }> {
    return { ...(await this.#ping(view)), ...(await this.#redeliver(view)) }
  }

  /** @returns the `disabledAt` that has been announced to the other endpoints, if the endpoint was disabled automatically */
  async publishDisabled(view: EndpointView): Promise<string | undefined> {
    const { status } = view.endpoint
    if (status?.disabledReason !== 'ConsecutiveFailures' || status.disabledAt === undefined)
      return status?.announcedAt
    if (status.announcedAt === status.disabledAt) return status.announcedAt
    await this.#options.publisher.endpointDisabled(view.endpoint, status.disabledAt)
    const message = `Disabled automatically after ${status.consecutiveFailures} exhausted deliveries in a row since ${status.failingSince}.`
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'DisabledAutomatically',
      message,
    })
    return status.disabledAt
  }

  async #ping(view: EndpointView): Promise<{ ping?: string }> {
    const { metadata, status } = view.endpoint
    const request = readRequest(
      metadata.annotations?.[PING_ANNOTATION],
      status?.lastHandled?.ping,
      createdAt(view),
    )
    if (request.kind === 'none') return {}
    if (request.kind === 'invalid')
      this.#warn(view, 'InvalidRequest', `${PING_ANNOTATION}: ${request.message}`)
    if (request.kind === 'new' && !view.enabled)
      this.#warn(view, 'EndpointDisabled', 'A disabled endpoint cannot be pinged; enable it first.')
    if (request.kind === 'new' && view.enabled) {
      const id = await this.#options.publisher.ping(view.endpoint, request)
      this.#note(view, 'Pinged', `webhook.ping is delivered as ${messageId(id)}.`)
    }
    return { ping: request.value }
  }

  async #redeliver(view: EndpointView): Promise<{ redeliver?: string }> {
    const { metadata, status } = view.endpoint
    const value = metadata.annotations?.[REDELIVER_ANNOTATION]
    const request = readRedeliverRequest(value, status?.lastHandled?.redeliver, createdAt(view))
    if (request.handled === undefined) return {}
    for (const item of request.invalid)
      this.#warn(view, 'InvalidRequest', `${REDELIVER_ANNOTATION}: ${item}.`)
    if (request.items.length > 0 && !view.enabled) {
      this.#warn(
        view,
        'EndpointDisabled',
        'Nothing can be redelivered to a disabled endpoint; enable it first.',
      )
    } else {
      for (const item of request.items) await this.#redeliverOne(view, item)
    }
    return { redeliver: request.handled }
  }

  async #redeliverOne(
    view: EndpointView,
    item: { deliveryId: string; at: number; raw: string },
  ): Promise<void> {
    const { resources, namespace, publisher } = this.#options
    const original = await findOriginal({ resources, namespace }, view.endpoint, item.deliveryId)
    if (!original) {
      return this.#warn(
        view,
        'DeliveryNotFound',
        `This endpoint has no delivery ${item.deliveryId} (any more); it cannot be repeated.`,
      )
    }
    const id = await publisher.redeliver(view.endpoint, original, { value: item.raw, at: item.at })
    this.#note(view, 'Redelivered', `${item.deliveryId} is delivered again as ${messageId(id)}.`)
  }

  #warn(view: EndpointView, reason: string, message: string): void {
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Warning',
      reason,
      message,
    })
  }

  #note(view: EndpointView, reason: string, message: string): void {
    this.#options.events.record(endpointReference(view.endpoint.metadata), {
      type: 'Normal',
      reason,
      message,
    })
  }
}

function createdAt(view: EndpointView): number {
  return Date.parse(view.endpoint.metadata.creationTimestamp ?? '') || 0
}

/**
 * One pass over an endpoint: its signing keys, the requests of its owner, its state, and what its status says
 * of all that. What an action did is noted in the status only after it is durable, and what a crash lets it do
 * again is the same action under the same id.
 */

export type ReconcileEndpointOptions = {
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  organizations: Organizations
  catalogue: EventTypeStore
  keeper: SigningKeyReconciler
  requests: EndpointRequests
  notice: DisabledNotifier
  events: EventRecorder
  clock: Clock
  /** Why the URL cannot be delivered to, in words for its owner; undefined if it can. */
  refuseUrl: (url: string) => string | undefined
}

export class EndpointReconciler implements Reconciler {
  readonly #options: ReconcileEndpointOptions

  constructor(options: ReconcileEndpointOptions) {
    this.#options = options
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const [namespace = '', name = ''] = key.split('/')
    const { directory, statuses } = this.#options
    const first = directory.get(namespace, name)
    if (!first || first.endpoint.metadata.deletionTimestamp) return noRequeue()
    const { uid } = first.endpoint.metadata
    return await statuses.exclusively({ namespace, name, uid }, async (view) =>
      view ? await this.#pass(view) : noRequeue(),
    )
  }

  async #pass(seen: EndpointView): Promise<ReconcileResult> {
    const { keeper, requests, directory, statuses, clock } = this.#options
    const { namespace = '', name, uid } = seen.endpoint.metadata
    const problems = this.#problemsOf(seen)
    const keys = await keeper.reconcile(seen)
    problems.push(...keys.problems)
    const handled = { ...seen.endpoint.status?.lastHandled, ...seen.decision.handled, ...keys.handled }
    for (const problem of seen.decision.problems) this.#warn(seen, problem)
    Object.assign(handled, await requests.handle(seen))
    const announced = await requests.publishDisabled(seen)
    const view = directory.find({ namespace, name, uid }) ?? seen
    const found = { problems, handled, announced, rolled: keys.rolled }
    let desired = endpointStatus(view, clock.now(), found)
    await statuses.write(view, (now) => {
      desired = endpointStatus(now, clock.now(), found)
      return statusPatch(now.endpoint.status ?? {}, desired)
    })
    this.#options.notice.notifyIfDisabled(view.endpoint.metadata, desired)
    return keys.lookAgainAt === undefined
      ? noRequeue()
      : requeueAfter(Math.max(1000, keys.lookAgainAt - clock.now()))
  }

  #problemsOf({ endpoint }: EndpointView): Problem[] {
    const { organizations, catalogue, refuseUrl } = this.#options
    const { namespace = '' } = endpoint.metadata
    const problems: Problem[] = []
    if (!organizations.get(namespace)) {
      const message = `The namespace ${namespace} is no organization: it lacks the label davit.dev/organization=true.`
      problems.push({ reason: 'NotAnOrganization', message })
    }
    const refused = refuseUrl(endpoint.spec.url)
    if (refused) problems.push({ reason: 'UrlNotAllowed', message: `spec.url: ${refused}` })
    const unknown = catalogue.unknown(endpoint.spec.eventTypes)
    if (unknown.length > 0) {
      const message = `spec.eventTypes: no EventType named ${unknown.join(', ')}; it works once the type exists (kubectl get eventtypes).`
      problems.push({ reason: 'UnknownEventTypes', message })
    }
    return problems
  }

  #warn({ endpoint }: EndpointView, message: string): void {
    this.#options.events.record(endpointReference(endpoint.metadata), {
      type: 'Warning',
      reason: 'InvalidRequest',
      message,
    })
  }
}
