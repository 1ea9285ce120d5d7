/** The delivery plane with its log, its retention, and what it knows of endpoints. */

import { outcomeSegments } from '../apis/api-outcome-segment.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { deliveryObjectName } from '../apis/ids.ts'
import type { ResourceType } from '../apis/meta.ts'
import type { ShardOwnership } from '../ha/shards-ownership.ts'
import { cancelHeld } from '../webhooks/delivery/cancel.ts'
import { DeliveryEngine } from '../webhooks/delivery/engine.ts'
import { LogFollower } from '../webhooks/delivery/log-follower.ts'
import { DeliveryObjects } from '../webhooks/delivery/objects.ts'
import { OpenSegments } from '../webhooks/delivery/open-segments.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { EndpointStatusWriter } from '../webhooks/endpoints/endpoint-endpoint-status.ts'
import { EndpointHealth } from '../webhooks/endpoints/health.ts'
import { ByteWindow } from '../webhooks/events/byte-window.ts'
import { createEventLog, type OpenEventLog } from '../webhooks/log/event-log.ts'
import { DedupeIndex } from '../webhooks/log/key-index.ts'
import { createOutcomeLog, type OpenOutcomeLog } from '../webhooks/log/outcome-log.ts'
import { byteLength, INLINE_PAYLOAD_BYTES } from '../webhooks/log/payload.ts'
import { Retention } from '../webhooks/log/retention.ts'
import { firstNameReader, SegmentNamer } from '../webhooks/log/segment-names.ts'
import type { Config } from './config.ts'
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
