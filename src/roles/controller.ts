/** The role `davit controller`: delivers webhooks, keeps secrets in the accounts of their organizations, and bakes boxes with them. */

import type { Config } from '../config.ts'
import { recoverObjects } from '../controllers/delivery/recover-objects.ts'
import { readLowWater, readOutcomes } from '../controllers/delivery-log/read-back.ts'
import { installationKey } from '../controllers/facade/installation-key.ts'
import type { LogSegment } from '../ports/delivery-log.ts'
import { pause } from '../runtime/pause.ts'
import type { Watch } from '../runtime/watch.ts'
import { type BakeRole, createBakeRole } from './bake-role.ts'
import { type ControllerParts, createControllerParts } from './controller-parts.ts'
import { type ControllerWatches, createWatches } from './controller-watches.ts'
import { createSecretsRole, type SecretsRole } from './secrets-role.ts'
import type { World } from './world-types.ts'

export type ControllerOptions = { config: Config; world: World; version: string }

export type RunningController = {
  parts: ControllerParts
  secrets: SecretsRole
  bakes: BakeRole
  /** What keeps it from being ready, in words; none when it delivers. */
  problems(): string[]
  /** Resolves when everything left by the process before goes on. */
  ready: Promise<void>
  /** No new attempt; running ones end or are given up after the drain time; what they came to is stored. */
  stop(): Promise<void>
}

const RETRY_MS = 1000
/** Shorter breaks are the API server's everyday life. */
const UNWATCHED_MS = 5000
/** For what is on its way to the store after attempts were given up. */
const LAST_WRITES_MS = 3000

export async function startController(options: ControllerOptions): Promise<RunningController> {
  const { config, world, version } = options
  const giveUp = new AbortController()
  const lowWater = await untilAnswered(world, giveUp.signal, () => readLowWater(world.api, config.namespace))
  const { namespace } = config
  const key = await untilAnswered(world, giveUp.signal, () =>
    installationKey({ resources: world.api, namespace, random: world.random }),
  )
  const parts = createControllerParts({ config, world, version, lowWater, giveUp: giveUp.signal })
  const { secrets, bakes } = createBoxRoles(options, parts, key)
  const buffered: LogSegment[] = []
  let onSegment = (segment: LogSegment): void => void buffered.push(segment)
  const watches = createWatches({
    parts,
    needs: world,
    namespace,
    onSegment: (segment) => {
      parts.retention.segmentSeen(segment)
      onSegment(segment)
    },
  })
  let stopping = false
  let problem: string | undefined = 'reading what the process before left'
  const ready = recover({ ...options, secrets, bakes }, parts, watches, {
    buffered,
    giveUp: giveUp.signal,
  }).then(() => {
    if (stopping) return
    for (const segment of buffered.splice(0)) parts.intake.take(segment)
    onSegment = (segment) => parts.intake.take(segment)
    parts.plane.start()
    parts.endpointLoop.start()
    parts.eventLoop.start()
    watches.events.start()
    parts.retention.start()
    secrets.start()
    bakes.start()
    problem = undefined
    parts.keyStore
      .sweep(world.clock.now())
      .catch((error: unknown) => world.log.warn('Keys left behind could not be removed', { error }))
    world.log.info('Delivering', { unfinished: parts.plane.tally.total })
  })
  return {
    parts,
    secrets,
    bakes,
    ready,
    problems: () => [
      ...(problem ? [problem] : []),
      ...(parts.outcomes.healthy() ? [] : ['outcomes cannot be stored']),
      ...unwatched(watches, [...secrets.watches, ...bakes.watches]),
    ],
    stop: () => {
      stopping = true
      const stopped = [stop(options, parts, watches, giveUp), secrets.stop(), bakes.stop()]
      return Promise.all(stopped).then(() => undefined)
    },
  }
}

/** What a box needs: the credentials, and what is baked with them. */
function createBoxRoles(
  { config, world }: ControllerOptions,
  { organizations }: ControllerParts,
  installationKey: Uint8Array,
): { secrets: SecretsRole; bakes: BakeRole } {
  const secrets = createSecretsRole({ config, world, organizations, installationKey })
  const { credentials } = secrets.parts
  return { secrets, bakes: createBakeRole({ config, world, organizations, credentials }) }
}

/** One line for all: they are lost together. */
function unwatched({ settings, log, events }: ControllerWatches, others: readonly Watch[]): string[] {
  const all = [...settings, log, events, ...others]
  const longest = Math.max(...all.map((watch) => watch.contact.lostForMs()))
  if (longest < UNWATCHED_MS) return []
  return [`the API server could not be watched for ${Math.floor(longest / 1000)} s`]
}

async function recover(
  options: ControllerOptions & { secrets: SecretsRole; bakes: BakeRole },
  parts: ControllerParts,
  watches: ControllerWatches,
  found: { buffered: LogSegment[]; giveUp: AbortSignal },
): Promise<void> {
  const { config, world } = options
  const { intake, plane, retention } = parts
  const known = [...watches.settings, ...options.secrets.watches, ...options.bakes.watches]
  for (const watch of known) watch.start()
  await Promise.all(known.map((watch) => watch.synced))
  watches.log.start()
  await watches.log.synced
  const { lowWater } = plane.ctx.segments
  const records = await untilAnswered(world, found.giveUp, () =>
    readOutcomes(world.api, config.namespace, lowWater, (segment, lines) => {
      world.log.error('Outcomes cannot be read; what they speak of may be sent again', { segment, lines })
    }),
  )
  intake.readBack(found.buffered.splice(0), records)
  const unfinished = await recoverObjects({
    plane,
    intake,
    onFound: (outline) => retention.objectFound(outline),
  })
  const reopened = await intake.resolve()
  world.log.info('Read back what the process before left', { unfinished, reopened })
}

async function stop(
  options: ControllerOptions,
  parts: ControllerParts,
  watches: ControllerWatches,
  giveUp: AbortController,
): Promise<void> {
  const { clock, log } = options.world
  parts.plane.stop()
  const retained = parts.retention.stop()
  // A pass may wait for an outcome of its endpoint that the store does not take: only giving up ends that.
  const loops = [parts.endpointLoop.stop(), parts.eventLoop.stop()]
  const drained = Promise.all([...loops, parts.plane.drained()])
  // What a mail that is given up tells is told by the next process.
  const ended = Promise.all([drained, parts.notice.stop()]).then(() => true)
  const inTime = await Promise.race([ended, pause(clock, options.config.drainMs).then(() => false)])
  if (!inTime)
    log.warn('Attempts under way were given up; they are made again at the next start', {
      ...parts.plane.stats(),
    })
  giveUp.abort()
  const lastWrites = Promise.all([drained, retained, parts.outcomes.drain(), parts.eventLog.drain()])
  await Promise.race([lastWrites, pause(clock, LAST_WRITES_MS)])
  await Promise.all([...watches.settings, watches.log, watches.events].map((watch) => watch.stop()))
}

/** The API server may come up later than the controller. */
async function untilAnswered<T>(world: World, signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (signal.aborted) throw error
      world.log.warn('The API server did not answer; trying again', { error })
      await pause(world.clock, RETRY_MS, signal)
    }
  }
}
