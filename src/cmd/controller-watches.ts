/** What the controller watches, and which loop each change wakes. */

import { outcomeSegments } from '../apis/api-outcome-segment.ts'
import { namespaces, secrets } from '../apis/core-kinds.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { eventOutline } from '../apis/event-outline.ts'
import { eventType, eventTypes } from '../apis/event-type.ts'
import { ORGANIZATION_LABEL } from '../apis/meta.ts'
import { SIGNING_KEYS_LABEL } from '../apis/signing-keys.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { webhookEvents } from '../apis/webhook-event.ts'
import type { RawObject } from '../kube/client.ts'
import { Informer } from '../kube/informer.ts'
import { readOrganization } from '../kube/organizations.ts'
import type { InformerDependencies } from '../kube/reflector-options.ts'
import { readKeys } from '../webhooks/endpoints/signing-keys.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE } from '../webhooks/log/log-pages.ts'
import { reachesLowWater, readLiveSegment, readLoggedOutcomes } from '../webhooks/log/reader.ts'
import { MIN_AGE_MS } from '../webhooks/log/retention-plan.ts'
import type { LoggedOutcomes } from '../webhooks/log/seen-outcomes.ts'
import type { LogSegment } from '../webhooks/log/store.ts'
import type { WebhookControllers } from './webhook-controllers.ts'

export type WebhookWatchOptions = {
  parts: WebhookControllers
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** The store is older than what was read of it. */
  onSetBack: () => void
  /** Outcomes may have been written and deleted that were never read here. */
  onMissed: () => void
}

/** `settings` decide how deliveries go; `log` is the feed of segments, and `outcomes` of what became of them; `events` are read last. */
export type WebhookWatches = {
  inputs: Informer<unknown>[]
  log: Informer<LogSegment>
  outcomes: Informer<LoggedOutcomes>
  events: Informer<unknown>
}

/** By how much the clocks of who deletes and of who watches may differ, with what lies between a deletion and its decision. */
const MISSED_MARGIN_MS = 20_000

/** Not started. */
export function createWebhookWatches(options: WebhookWatchOptions): WebhookWatches {
  const { parts, needs, namespace } = options
  wakeLoops(parts)
  const organizations = new Informer(
    {
      type: namespaces,
      query: { labelSelector: `${ORGANIZATION_LABEL}=true` },
      decode: readOrganization,
      handler: {
        applied: (organization) => parts.organizations.apply(organization),
        deleted: (organization) => parts.organizations.remove(organization.name),
      },
    },
    needs,
  )
  const types = new Informer(
    {
      type: eventTypes,
      decode: (raw) => eventType.parse(raw),
      handler: {
        applied: (type) => parts.catalogue.apply(type),
        deleted: (type) => parts.catalogue.remove(type),
      },
    },
    needs,
  )
  const keys = new Informer(
    {
      type: secrets,
      query: { namespace, labelSelector: `${SIGNING_KEYS_LABEL}=true` },
      decode: readKeys,
      handler: {
        applied: (held) => parts.directory.applyKeys(held.namespace, held.endpoint, held.keys),
        deleted: ({ namespace, endpoint, keys }, version = Number(keys.version)) =>
          parts.directory.removeKeys(namespace, endpoint, version),
      },
    },
    needs,
  )
  const endpoints = new Informer(
    {
      type: webhookEndpoints,
      decode: (raw) => webhookEndpoint.parse(raw),
      handler: {
        applied: (endpoint) => parts.directory.apply(endpoint),
        deleted: (endpoint) => parts.directory.remove(endpoint),
      },
    },
    needs,
  )
  const events = new Informer(
    {
      type: webhookEvents,
      decode: (raw) => eventOutline.parse(raw),
      handler: {
        applied: (event) => {
          if (parts.book.apply(event)) parts.eventLoop.add(event.metadata.namespace)
        },
        deleted: (event) => parts.book.remove(event),
      },
    },
    needs,
  )
  parts.book.isComplete = () => events.isGapless
  const takeSegment = (segment: LogSegment) => {
    parts.segmentNamers.segments.observe(segment.name)
    parts.retention.segmentSeen(segment)
    parts.follower.addSegment(segment)
  }
  const log = new Informer(
    {
      ...logWatchOptions(options),
      type: deliverySegments,
      decode: readLiveSegment,
      handler: {
        applied: takeSegment,
        gone: (key) => parts.retention.segmentGone(key.slice(namespace.length + 1)),
      },
    },
    needs,
  )
  const outcomes = new Informer(
    {
      ...logWatchOptions(options),
      gapDetection: { afterMs: MIN_AGE_MS - MISSED_MARGIN_MS, onGap: options.onMissed },
      type: outcomeSegments,
      decode: (raw) => readLoggedOutcomes(raw, needs.log),
      handler: {
        applied: (seen) => {
          parts.segmentNamers.outcomes.observe(seen.name)
          parts.retention.outcomesSeen(seen)
          parts.follower.applyOutcomes(seen)
        },
      },
    },
    needs,
  )
  return {
    inputs: [organizations, types, keys, endpoints] as Informer<unknown>[],
    log,
    outcomes,
    events: events as Informer<unknown>,
  }
}

/** What the feeds of segments and of outcomes have in common. */
function logWatchOptions({ parts, namespace, onSetBack }: WebhookWatchOptions) {
  return {
    query: { namespace, limit: LOG_PAGE },
    largestPage: LARGEST_LOG_PAGE,
    forget: true,
    onSetBack,
    stopListing: stopAtLowWater(() => parts.engine.ctx.segments.lowWater),
  }
}

/** Each list of the log ends soon behind the low-water mark, as that was when the list before had ended. */
function stopAtLowWater(lowWater: () => number): (page: readonly RawObject[]) => boolean {
  let enough = reachesLowWater(lowWater())
  return (page) => {
    if (!enough(page)) return false
    enough = reachesLowWater(lowWater())
    return true
  }
}

/** Changes of what an endpoint's condition depends on. */
function wakeLoops(parts: WebhookControllers): void {
  const { directory, organizations, catalogue, endpointLoop, eventLoop } = parts
  const wake = ({ metadata }: WebhookEndpoint) => endpointLoop.add(`${metadata.namespace}/${metadata.name}`)
  directory.listen({
    changed: (view) => wake(view.endpoint),
    removed: ({ metadata }) => {
      parts.sharedSecrets.forget(metadata.uid)
      // The keys go with their endpoint; a failure is made good by a later sweep.
      if (parts.engine.owns(metadata.uid))
        void parts.keyStore
          .remove(metadata.namespace ?? '', metadata.name, metadata.uid)
          .catch(() => undefined)
    },
  })
  organizations.listen((name) => {
    for (const { endpoint } of directory.inNamespace(name)) wake(endpoint)
    eventLoop.add(name)
  })
  catalogue.listen((type) => {
    for (const { endpoint } of directory.all()) if (endpoint.spec.eventTypes.includes(type)) wake(endpoint)
  })
}
