import { webhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import type { OwnershipEpochs } from '../../src/ha/ownership.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import type { EventRecorder } from '../../src/kube/recorder.ts'
import type { Logger } from '../../src/lib/log.ts'
import type { Clock } from '../../src/lib/time.ts'
import { DeliveryEngine } from '../../src/webhooks/delivery/engine.ts'
import { LogFollower, type LogFollowerOptions } from '../../src/webhooks/delivery/log-follower.ts'
import { OpenSegments } from '../../src/webhooks/delivery/low-water-mark.ts'
import { DeliveryObjects } from '../../src/webhooks/delivery/objects.ts'
import { Payloads } from '../../src/webhooks/delivery/payloads.ts'
import { ShardTakeover } from '../../src/webhooks/delivery/takeover.ts'
import { EndpointDirectory, EndpointStatusWriter } from '../../src/webhooks/endpoints/directory.ts'
import { EndpointHealth } from '../../src/webhooks/endpoints/health.ts'
import { LastAttempts } from '../../src/webhooks/endpoints/last-attempts.ts'
import { BegunAttempts } from '../../src/webhooks/log/crash-series.ts'
import { ShardClaims } from '../../src/webhooks/log/fencing.ts'
import { DedupeIndex } from '../../src/webhooks/log/idempotency-keys.ts'
import { SkewGuardedClock } from '../../src/webhooks/log/retention-loop.ts'
import type { RejectionLimits } from '../../src/webhooks/log/retention-plan.ts'
import { SegmentBodies } from '../../src/webhooks/log/segment-bodies.ts'
import { createOutcomeLog } from '../../src/webhooks/log/writers.ts'
import type { WebhookSender } from '../../src/webhooks/sender/send-failures.ts'
import { fixedRandom } from './fake-clock.ts'
import { logOn } from './log-on.ts'

/** The operator's namespace of a bed. */
export const SYSTEM = 'davit-system'

const nothing = () => undefined
const MIB = 1024 * 1024

export type EnginePartsOptions = {
  clock: Clock
  api: ResourceReader & ResourceWriter
  /** Where outcomes are written. */
  outcomesApi: ResourceReader & ResourceWriter
  sender: WebhookSender
  events: EventRecorder
  session: string
  lowWater: number
  /** Scale of the waits between attempts; absent: as documented. */
  waitScale?: number
  /** Absent: 1000. */
  viewsPerSecond?: number
  /** Of bodies in memory; absent: a mebibyte. */
  maxPayloadBytes?: number
  /** Absent: a day, and any amount. */
  keptInLog?: RejectionLimits
  giveUp: AbortSignal
  owns: (shard: number) => boolean
  /** Whether no earlier owner can have work in progress; absent: always. */
  isAlone?: (shard: number) => boolean
  /** Whether its writes are accepted; absent: always. */
  mayWrite?: () => boolean
  epochs?: OwnershipEpochs
  /** Called for logged warnings and errors, and when the log was lost. */
  complain: (message: string) => void
  /** @param endVersion of the object that shows the end, if that is known */
  onEnded?: (name: string, state: string, endVersion?: string) => void
  onClaimedElsewhere?: (shards: readonly number[]) => void
  onPromotedElsewhere?: LogFollowerOptions['onPromotedElsewhere']
  /** Version up to which the watch has delivered segments; absent: all. */
  deliveredUpTo?: () => number
}

/** The delivery engine of one process as the controller assembles it, without its watches. */
export function engineParts(options: EnginePartsOptions) {
  const { clock, api, session, giveUp, complain, onEnded } = options
  const directory = new EndpointDirectory()
  const keys = new DedupeIndex()
  const segments = new OpenSegments(options.lowWater)
  const random = fixedRandom(0.5)
  const tell = (_event: string, message: string) => complain(message)
  const log: Logger = { info: nothing, warn: tell, error: tell }
  const statuses = new EndpointStatusWriter(api, directory, log)
  const bodies = new SegmentBodies({ store: logOn(api, { clock }), maxBytes: MIB, onRead: nothing })
  const payloads = new Payloads(options.maxPayloadBytes ?? MIB, bodies)
  const engine = new DeliveryEngine({
    clock,
    random,
    log,
    metrics: {
      attempt: nothing,
      finished: nothing,
      started: nothing,
      payloadsRead: nothing,
      viewLeftOut: nothing,
    },
    sender: options.sender,
    events: options.events,
    directory,
    statuses,
    streaks: new EndpointHealth(statuses, clock),
    lastAttempts: new LastAttempts(clock),
    resources: api,
    payloads,
    objects: new DeliveryObjects(api, payloads, clock),
    outcomes: createOutcomeLog({
      store: logOn(options.outcomesApi, { clock, random: uniqueNames() }),
      writer: session,
      clock,
      lowWater: () => segments.lowWater,
      mayWrite: () => options.mayWrite?.() ?? true,
      signal: giveUp,
    }),
    segments,
    keptInLog: options.keptInLog ?? { ageMs: 86_400_000, bytes: Infinity, deliveries: Infinity },
    ages: new SkewGuardedClock(clock),
    claims: new ShardClaims(),
    begun: new BegunAttempts(),
    writer: session,
    shards: {
      owns: options.owns,
      ...(options.isAlone ? { isAlone: options.isAlone } : {}),
      ...(options.epochs ? { epochs: options.epochs } : {}),
    },
    namespace: SYSTEM,
    userAgent: 'Davit/test',
    waitScale: options.waitScale ?? 1,
    giveUp,
    maxInFlight: 100,
    viewsPerSecond: options.viewsPerSecond ?? 1000,
    onEnded: ({ name, endVersion }, state) => onEnded?.(name, state, endVersion),
  })
  const follower = new LogFollower({
    engine,
    keys,
    writer: session,
    onLost: () => complain('lost'),
    onClaimedElsewhere: (shards) => options.onClaimedElsewhere?.(shards),
    onPromotedElsewhere: (entry, segment) => options.onPromotedElsewhere?.(entry, segment),
  })
  const deliveredUpTo = () => options.deliveredUpTo?.() ?? Number.POSITIVE_INFINITY
  const takeOver = new ShardTakeover({
    engine,
    follower,
    syncedVersion: deliveredUpTo,
  })
  return { directory, keys, segments, engine, follower, takeOver }
}

/** Adds an endpoint with its own signing secret to the directory. */
export function knowEndpoint(directory: EndpointDirectory, raw: RawObject): void {
  const endpoint = webhookEndpoint.parse(raw)
  const { namespace = '', name, uid, creationTimestamp = '' } = endpoint.metadata
  const key = { secret: `whsec_${'A'.repeat(32)}`, createdAt: creationTimestamp }
  directory.applyKeys(namespace, name, { endpointUid: uid, keys: [key], version: '1' })
  directory.apply(endpoint)
}

/** Random bytes that never repeat, so that names do not. */
function uniqueNames() {
  return { fraction: () => 0.5, bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) }
}
