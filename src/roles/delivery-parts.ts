/** The delivery plane with its log, its retention, and what it knows of endpoints. */
import { deliverySegments } from '../api/delivery-segment.ts'
import type { ResourceType } from '../api/meta.ts'
import { outcomeSegments } from '../api/outcome-segment.ts'
import type { Config } from '../config.ts'
import { DeliveryObjects } from '../controllers/delivery/delivery-objects.ts'
import { DeliveryEngine } from '../controllers/delivery/delivery-plane.ts'
import { LogFollower } from '../controllers/delivery/log-follower.ts'
import { OpenSegments } from '../controllers/delivery/open-segments.ts'
import { createEventLog, type OpenEventLog } from '../controllers/delivery-log/event-log.ts'
import { DedupeIndex } from '../controllers/delivery-log/key-index.ts'
import { createOutcomeLog, type OpenOutcomeLog } from '../controllers/delivery-log/outcome-log.ts'
import { firstNameReader, SegmentNamer } from '../controllers/delivery-log/segment-names.ts'
import { EndpointDirectory } from '../controllers/endpoint/endpoint-directory.ts'
import { EndpointStatusWriter } from '../controllers/endpoint/endpoint-status.ts'
import { EndpointHealth } from '../controllers/endpoint/endpoint-streaks.ts'
import { cancelHeld } from '../controllers/retention/cancel-held.ts'
import { Retention } from '../controllers/retention/retention.ts'
import { deliveryObjectName } from '../domain/message-id.ts'
import { byteLength, INLINE_PAYLOAD_BYTES } from '../domain/payload.ts'
import { ByteWindow } from '../runtime/byte-window.ts'
import type { ShardOwnership } from '../runtime/shards/ownership.ts'
import type { ControllerDependencies } from './world-types.ts'

export type DeliveryComponents = {
  directory: EndpointDirectory
  statuses: EndpointStatusWriter
  outcomes: OpenOutcomeLog
  eventLog: OpenEventLog
  /** Of either sequence, whose watch tells what there is. */
  segmentNamers: { segments: SegmentNamer; outcomes: SegmentNamer }
  dedupeIndex: DedupeIndex
  engine: DeliveryEngine
  follower: LogFollower
  streaks: EndpointHealth
  retention: Retention
  /** What was written for each organization in the last ten minutes. */
  written: ByteWindow
}

/** Old versions of objects take room until the store is compacted, which takes five to ten minutes. */
const WRITTEN_MINUTES = 10

export type DeliveryComponentsOptions = {
  config: Config
  world: ControllerDependencies
  version: string
  /** Every delivery up to this version of the log is closed. */
  lowWater: number
  /** Which shards this replica may work on. */
  shards: ShardOwnership
  /** Its Lease is valid: what it writes is not refused. */
  mayWrite: () => boolean
  /** What this start of the replica writes under. */
  session: string
  /** The log cannot be followed any more: only a new start can tell what is open. */
  onLost: () => void
  /** Another replica has claimed shards that this one drives. */
  onClaimedElsewhere: (shards: readonly number[]) => void
  giveUp: AbortSignal
}

export function createDeliveryComponents(options: DeliveryComponentsOptions): DeliveryComponents {
  const { config, world, giveUp } = options
  const { api, clock, random, metrics } = world
  const directory = new EndpointDirectory()
  const statuses = new EndpointStatusWriter(api, directory)
  const segments = new OpenSegments(options.lowWater)
  const log = { resources: api, namespace: config.namespace, writer: options.session, clock, random, metrics }
  const namesOf = (type: ResourceType) =>
    new SegmentNamer({ clock, random, first: firstNameReader(api, type, config.namespace) })
  const names = { segments: namesOf(deliverySegments), outcomes: namesOf(outcomeSegments) }
  const outcomes = createOutcomeLog({
    ...log,
    names: names.outcomes,
    lowWater: () => segments.lowWater,
    mayWrite: options.mayWrite,
    signal: giveUp,
    share: () => plane.queues.shareOfShards,
  })
  const retention = new Retention({
    ...log,
    log: world.log,
    limits: config.retention,
    directory,
    lowWater: () => segments.lowWater,
    healthy: () => outcomes.healthy(),
    share: () => plane.queues.shareOfShards,
    isOurs: (shard) => plane.queues.isOurs(shard),
    cancelHeld: (now) =>
      cancelHeld({ ctx: plane.ctx, lanes: plane.queues.ours(), limits: config.retention }, now),
    eventLog: { append: (events) => eventLog.append(events) },
  })
  const written = new ByteWindow(clock, WRITTEN_MINUTES)
  const onWritten = (organization: string, bytes: number) => written.add(organization, bytes)
  const objects = new DeliveryObjects(api, clock, {
    onWritten,
    onReferred: (object, segment) => retention.payloadReferred(object, segment),
  })
  const streaks = new EndpointHealth(statuses, clock, options.shards)
  const plane = new DeliveryEngine({
    ...world,
    directory,
    statuses,
    streaks,
    resources: api,
    objects,
    outcomes,
    segments,
    shards: options.shards,
    namespace: config.namespace,
    userAgent: `Davit/${options.version}`,
    waitScale: config.waitScale,
    giveUp,
    maxInFlight: config.limits.inFlight,
    onEnded: (delivery, state, object) => {
      if (object) retention.endedWithObject(delivery, state)
    },
    onDropped: (delivery) => retention.objectGone(delivery),
  })
  const keys = new DedupeIndex()
  const follower = new LogFollower({
    plane,
    keys,
    writer: options.session,
    onLost: options.onLost,
    onClaimedElsewhere: options.onClaimedElsewhere,
    onPromotedElsewhere: ({ event, endpoint }, segment) => {
      if (byteLength(event.payload) <= INLINE_PAYLOAD_BYTES) return
      const name = deliveryObjectName(event.id, endpoint.uid)
      retention.payloadReferred({ namespace: event.namespace, name }, segment)
    },
  })
  const eventLog = createEventLog({ ...log, names: names.segments, onWritten })
  return {
    directory,
    statuses,
    outcomes,
    eventLog,
    segmentNamers: names,
    dedupeIndex: keys,
    engine: plane,
    follower,
    streaks,
    retention,
    written,
  }
}
