/**
 * Davit's controller in the test's process, with the shipped rights, on the real API server of the run, for one organization:
 *   const davit = await startDavit('endpoint-disable')
 *   await davit.endpoint('billing', { url: `${receiver.url}/billing` })
 *   await davit.publish('environment.started', { number: 1 })
 *   davit.clock.jump(30_000)
 * Waits, overlaps and retention use `davit.clock`, which a test moves ahead; calls and attempts use real time. `davit.stop()`
 * ends it.
 */

import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import { builtinEventTypes } from '../../src/apis/builtin-event-types.ts'
import { eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION, type ResourceType } from '../../src/apis/meta.ts'
import { type WebhookDelivery, webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { type WebhookEvent, webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import { createMetrics } from '../../src/cmd/metrics.ts'
import type { RunningController } from '../../src/cmd/start-controller.ts'
import { isApiError, type RawObject } from '../../src/kube/client.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import type { Mailer } from '../../src/lib/mail.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import type { NameServer } from '../../src/net/resolver.ts'
import { testNamespace } from './control-plane.ts'
import { connectAsController } from './controller-identity.ts'
import { SkewedClock } from './fake-clock.ts'
import { scopedApi } from './scoped-api.ts'
import type { SeenEvent } from './seen-events.ts'
import { startTestController } from './test-controller.ts'
import { LIMIT_MS, until } from './until.ts'

export type DavitOptions = {
  /** Settings, as DAVIT_ variables. */
  env?: Record<string, string>
  mailer?: Mailer
  /** PEM of the authority of receivers' certificates. */
  ca?: string
  /** Replaces DNS. */
  nameServer?: NameServer
  /** Addresses of the organization's owners. */
  ownerEmails?: string
  /** Another control plane than that of the run. */
  cluster?: Pick<ControlPlane, 'access' | 'kubeconfigPath'>
  /** Whether Events go to the API server as well, as they do in production. */
  recordEvents?: boolean
  /** Whether there is a second organization. */
  otherOrganization?: boolean
  /** Wraps the controller's API client. */
  wrapApi?: (api: KubernetesClient) => KubernetesClient
}

export class TestDavit {
  readonly organization: string
  readonly namespace: string
  /** A client without restrictions. */
  readonly api: KubernetesClient
  readonly clock = new SkewedClock()
  /** The Events that `kubectl describe` would show. */
  readonly events: SeenEvent[] = []
  readonly logLines: string[] = []
  readonly metrics = createMetrics({ version: '0.0.0-test' })
  declare controller: RunningController
  /** Another organization of the same controller, to create, publish and read there. */
  otherOrganization: TestDavit | undefined
  readonly #options: DavitOptions
  #own: KubernetesClient | undefined
  #names = 0

  private constructor(
    names: { organization: string; namespace: string },
    api: KubernetesClient,
    options: DavitOptions,
  ) {
    this.organization = names.organization
    this.namespace = names.namespace
    this.api = api
    this.#options = options
  }

  organizations(): string[] {
    return this.otherOrganization
      ? [this.organization, this.otherOrganization.organization]
      : [this.organization]
  }

  static async start(topic: string, options: DavitOptions): Promise<TestDavit> {
    const annotations = options.ownerEmails ? { 'davit.dev/owner-emails': options.ownerEmails } : {}
    const where = options.cluster ? { access: options.cluster.access } : {}
    const organization = await testNamespace(topic, { annotations, ...where })
    const namespace = await testNamespace(`${topic}-system`, { organization: false, ...where })
    const kubeconfigPath = options.cluster?.kubeconfigPath ?? inject('kubeconfig')
    const api = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
    const davit = new TestDavit({ organization, namespace }, api, options)
    if (options.otherOrganization) {
      const names = { organization: await testNamespace(`${topic}-neighbour`, where), namespace }
      davit.otherOrganization = new TestDavit(names, api, options)
    }
    for (const type of builtinEventTypes)
      await davit.#make(eventTypes, { ...type, metadata: { ...type.metadata } })
    const access = options.cluster?.access ?? inject('adminAccess')
    const organizations = davit.organizations()
    davit.#own = await connectAsController({ access, namespace, organizations, kubeconfigPath })
    await davit.startController()
    return davit
  }

  /** Starts the controller (again); it gets all of its state from the API server. */
  async startController(): Promise<void> {
    this.controller = await this.joinAs('test')
    if (this.otherOrganization) this.otherOrganization.controller = this.controller
    await this.controller.ready
  }

  /**
   * Starts another controller with that name. The caller stops it.
   * @param wrapApi wraps its API client; absent: as in the test's options
   */
  async joinAs(replica: string, wrapApi = this.#options.wrapApi): Promise<RunningController> {
    const scoped = scopedApi(this.#own ?? this.api, this.organizations())
    const { namespace, clock, metrics, events, logLines } = this
    const options = { ...this.#options, namespace, replica, clock, metrics, events, logLines }
    return await startTestController({ ...options, api: wrapApi?.(scoped) ?? scoped, recordTo: scoped })
  }

  /** Ends the process and starts the next one. */
  async restart(): Promise<void> {
    await this.controller.stop()
    await this.startController()
  }

  async stop(): Promise<void> {
    await this.controller.stop()
    await this.#own?.close()
    await this.api.close()
  }

  /** Creates an endpoint and waits until it is active. @returns it and its signing secret */
  async endpoint(
    name: string,
    spec: Record<string, unknown>,
  ): Promise<{ endpoint: WebhookEndpoint; secret: string }> {
    await this.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata: { name, namespace: this.organization },
      spec: { eventTypes: ['*'], ...spec },
    })
    const endpoint = await this.endpointWhen(
      name,
      ({ status }) => (status?.observedGeneration ?? -1) > 0 && status?.signingSecrets !== undefined,
    )
    return { endpoint, secret: this.secrets(name)[0] ?? '' }
  }

  /** The signing secrets in the order in which they sign, newest first. */
  secrets(name: string): string[] {
    const view = this.controller.webhooks.directory.get(this.organization, name)
    return (view?.keys?.keys ?? []).map((key) => key.secret)
  }

  /** Publishes as with kubectl and waits until the event is accepted or rejected. `data` as text is passed on verbatim. */
  async publish(type: string, data: unknown, spec: Record<string, unknown> = {}): Promise<WebhookEvent> {
    const name = await this.publishOnly(type, data, spec)
    return await this.eventWhen(name, ({ status }) => status?.state !== undefined)
  }

  /** Publishes without waiting. @returns the object's name */
  async publishOnly(type: string, data: unknown, spec: Record<string, unknown> = {}): Promise<string> {
    this.#names += 1
    const name = `event-${this.#names}-${randomBytes(3).toString('hex')}`
    const dataText = typeof data === 'string' ? data : JSON.stringify(data)
    await this.api.create(webhookEvents, {
      apiVersion: API_VERSION,
      kind: 'WebhookEvent',
      metadata: { name, namespace: this.organization },
      spec: { type, dataText, ...spec },
    })
    return name
  }

  /** Sets annotations of an endpoint, as `kubectl annotate --overwrite` does; null removes one. */
  async annotate(name: string, annotations: Record<string, string | null>): Promise<void> {
    await this.api.patch(
      webhookEndpoints,
      { namespace: this.organization, name },
      { metadata: { annotations } },
    )
  }

  async patchSpec(name: string, spec: Record<string, unknown>): Promise<void> {
    await this.api.patch(webhookEndpoints, { namespace: this.organization, name }, { spec })
  }

  /** The current time of the controller's clock, in the format of annotation requests. */
  time(): string {
    return new Date(this.clock.now()).toISOString()
  }

  async deliveries(endpoint?: string): Promise<WebhookDelivery[]> {
    const query = {
      namespace: this.organization,
      ...(endpoint ? { fieldSelector: `spec.endpoint=${endpoint}` } : {}),
    }
    const page = await this.api.list(webhookDeliveries, { ...query, limit: 1000 })
    return page.items.map((raw) => webhookDelivery.parse(raw))
  }

  endpointWhen(name: string, wanted: (endpoint: WebhookEndpoint) => boolean): Promise<WebhookEndpoint> {
    return this.#when(webhookEndpoints, name, (raw) => webhookEndpoint.parse(raw), wanted)
  }

  eventWhen(name: string, wanted: (event: WebhookEvent) => boolean): Promise<WebhookEvent> {
    return this.#when(webhookEvents, name, (raw) => webhookEvent.parse(raw), wanted)
  }

  /** Resolves with the deliveries of an endpoint when they are as wanted. */
  async deliveriesWhen(
    endpoint: string,
    wanted: (deliveries: WebhookDelivery[]) => boolean,
    limitMs = LIMIT_MS,
  ): Promise<WebhookDelivery[]> {
    let last: WebhookDelivery[] = []
    return await until(
      async () => {
        last = await this.deliveries(endpoint)
        return wanted(last) ? last : undefined
      },
      () =>
        `deliveries of ${endpoint} are not as wanted: ${JSON.stringify(last.map(({ status }) => status))}`,
      limitMs,
    )
  }

  /** Resolves with the Event of an object when there is such an Event. */
  async eventSeen(about: string, reason: string): Promise<SeenEvent> {
    return await until(
      async () => this.events.find((event) => event.about === about && event.reason === reason),
      () => `${about} has no event ${reason}: ${JSON.stringify(this.events)}`,
    )
  }

  async #when<T>(
    type: ResourceType,
    name: string,
    parse: (raw: RawObject) => T,
    wanted: (object: T) => boolean,
  ): Promise<T> {
    let last: unknown
    return await until(
      async () => {
        last = await this.api.get(type, { namespace: this.organization, name })
        const object = parse(last as RawObject)
        return wanted(object) ? object : undefined
      },
      () => `${name} is not as wanted: ${JSON.stringify(last)}`,
    )
  }

  async #make(type: ResourceType, object: RawObject): Promise<void> {
    try {
      await this.api.create(type, object)
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
  }
}

export function startDavit(topic: string, options: DavitOptions = {}): Promise<TestDavit> {
  return TestDavit.start(topic, options)
}
