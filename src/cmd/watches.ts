/**
 * The kinds that the controller watches: what is listed of each, and the form in which its objects are kept. `controller.ts` says
 * where they go and which loops they wake.
 */
import { boxTemplate, boxTemplates } from '../apis/box-template.ts'
import { namespaces, secrets } from '../apis/core-kinds.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { eventType, eventTypes } from '../apis/event-type.ts'
import { ORGANIZATION_LABEL, objectMeta, type ResourceType } from '../apis/meta.ts'
import { outcomeSegments } from '../apis/outcome-segment.ts'
import { registryCredential, registryCredentials } from '../apis/registry-credential.ts'
import { secretsSettings, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { SIGNING_KEYS_LABEL, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { eventOutline, webhookEvents } from '../apis/webhook-event.ts'
import { bakeSelector } from '../boxes/controller/bake-job.ts'
import type { RawObject } from '../kube/client.ts'
import {
  Informer,
  type InformerDependencies,
  type InformerHandler,
  type InformerOptions,
} from '../kube/informer.ts'
import { readOrganization } from '../kube/organizations.ts'
import type { Logger } from '../lib/log.ts'
import { readKeys } from '../webhooks/endpoints/signing-keys.ts'
import {
  LARGEST_LOG_PAGE,
  LOG_PAGE,
  reachesLowWater,
  readLiveSegment,
  readLoggedOutcomes,
} from '../webhooks/log/reader.ts'
import { MIN_AGE_MS } from '../webhooks/log/retention-plan.ts'

export type WatchedKind<T> = Omit<InformerOptions<T>, 'handler'>

/** @returns a function that makes informers, none of them started */
export function informers(dependencies: InformerDependencies) {
  return <T>(kind: WatchedKind<T>, handler: InformerHandler<T>): Informer<T> =>
    new Informer({ ...kind, handler }, dependencies)
}

/** Passes every change to a store. */
export function into<T>(store: { apply(object: T): void; remove(object: T): void }): InformerHandler<T> {
  return { applied: (object) => store.apply(object), deleted: (object) => store.remove(object) }
}

function kind<T>(type: ResourceType, schema: { parse(raw: RawObject): T }): WatchedKind<T> {
  return { type, decode: (raw) => schema.parse(raw) }
}

export const ORGANIZATIONS = {
  type: namespaces,
  query: { labelSelector: `${ORGANIZATION_LABEL}=true` },
  decode: readOrganization,
}
export const EVENT_TYPES = kind(eventTypes, eventType)
export const ENDPOINTS = kind(webhookEndpoints, webhookEndpoint)
export const EVENTS = kind(webhookEvents, eventOutline)
export const SETTINGS = kind(secretsSettingsResource, secretsSettings)
export const CREDENTIALS = kind(registryCredentials, registryCredential)
export const TEMPLATES = kind(boxTemplates, boxTemplate)

/** @param namespace the controller's own */
export function signingKeysIn(namespace: string) {
  return {
    type: secrets,
    query: { namespace, labelSelector: `${SIGNING_KEYS_LABEL}=true` },
    decode: readKeys,
  }
}

/** Jobs or pods of bakes, by their metadata alone: the loop reads the rest itself. */
export function ofBakes(type: ResourceType) {
  return {
    type,
    query: { labelSelector: bakeSelector() },
    decode: (raw: RawObject) => objectMeta.parse(raw.metadata),
  }
}

export type LogWatch = {
  /** The controller's own. */
  namespace: string
  lowWater: () => number
  /** Called when the store is older than what was read of it. */
  onStoreRestored: () => void
  /** Called when outcomes may have been written and deleted that were never read here. */
  onOutcomesMissed: () => void
  logger: Logger
}

export function segmentsOf(log: LogWatch) {
  return { ...logKind(log), type: deliverySegments, decode: readLiveSegment }
}

/** How far the clocks of the replica that deletes and of the one that watches may differ, plus the time from decision to deletion. */
const MISSED_MARGIN_MS = 20_000

export function outcomesOf(log: LogWatch) {
  return {
    ...logKind(log),
    gapDetection: { afterMs: MIN_AGE_MS - MISSED_MARGIN_MS, onGap: log.onOutcomesMissed },
    type: outcomeSegments,
    decode: (raw: RawObject) => readLoggedOutcomes(raw, log.logger),
  }
}

/** What the two halves of the log have in common. */
function logKind({ namespace, lowWater, onStoreRestored }: LogWatch) {
  return {
    query: { namespace, limit: LOG_PAGE },
    largestPage: LARGEST_LOG_PAGE,
    streaming: true,
    onStoreRestored,
    stopListing: stopAtLowWater(lowWater),
  }
}

/** Each list of the log ends soon after the low-water mark that was known when the list before it ended. */
function stopAtLowWater(lowWater: () => number): (page: readonly RawObject[]) => boolean {
  let enough = reachesLowWater(lowWater())
  return (page) => {
    if (!enough(page)) return false
    enough = reachesLowWater(lowWater())
    return true
  }
}
