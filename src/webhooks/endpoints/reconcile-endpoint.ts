/**
 * One pass over an endpoint: its signing keys, the requests of its owner, its state, and what its status says
 * of all that. What an action did is noted in the status only after it is durable, and what a crash lets it do
 * again is the same action under the same id.
 */

import type { EventRecorder } from '../../kube/event-recorder.ts'
import type { Organizations } from '../../kube/organizations.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { statusPatch } from '../../kube/status.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import { endpointReference } from './about-endpoint.ts'
import type { EndpointRequests } from './controller.ts'
import type { EndpointDirectory, EndpointView } from './directory.ts'
import type { EndpointStatusWriter } from './endpoint-endpoint-status.ts'
import type { SigningKeyReconciler } from './endpoint-keeper.ts'
import { endpointStatus } from './endpoint-status.ts'
import type { EventTypeStore } from './event-types.ts'
import type { DisabledNotifier } from './notifier.ts'
import type { Problem } from './plan.ts'

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
