/** What one replica does for all: whoever owns the first shard. It is made anew each time, and knows nothing of before. */
import type { Config } from '../config.ts'
import { makeShippedTypes } from '../controllers/shipped-types.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { fenced } from '../runtime/shards/fence.ts'
import { type BakeRole, createBakeRole } from './bake-role.ts'
import type { ControllerParts } from './controller-parts.ts'
import { fencedCloud } from './fenced-cloud.ts'
import type { Replica } from './replica.ts'
import { createSecretsRole, type SecretsRole } from './secrets-role.ts'
import type { World } from './world-types.ts'

/** Its owner is who does it. */
export const SINGLETONS_SHARD = 0

export type SingletonsOptions = {
  config: Config
  world: World
  parts: ControllerParts
  replica: Pick<Replica, 'holding'>
  installationKey: Uint8Array
  /** Every segment of events up to this version was shown. */
  shownUpTo: () => number
}

type Running = { secrets: SecretsRole; bakes: BakeRole }
type Made = Running & { forget: () => void; stopping: AbortController }

export class Singletons {
  readonly #options: SingletonsOptions
  #running: Made | undefined

  constructor(options: SingletonsOptions) {
    this.#options = options
  }

  /** Undefined where another replica does it. */
  get running(): Running | undefined {
    return this.#running
  }

  get watches(): readonly Reflector<unknown>[] {
    return this.#running ? [...this.#running.secrets.watches, ...this.#running.bakes.watches] : []
  }

  /**
   * Resolves when all that it looks at is known and it has begun, or when it is stopped before. Nobody has to wait for it: where
   * something of it cannot be read, deliveries go on.
   */
  async start(): Promise<void> {
    const { config, parts, replica, installationKey } = this.#options
    // Of this start alone: one that another replica has followed writes nothing more, in the cluster or in accounts.
    const mayWrite = replica.holding(SINGLETONS_SHARD)
    const { api, cloud } = this.#options.world
    const world = { ...this.#options.world, api: fenced(api, mayWrite), cloud: fencedCloud(cloud, mayWrite) }
    const { organizations, keyStore, retention } = parts
    const { made, forget } = organizations.whileMaking((): Running => {
      const secrets = createSecretsRole({ config, world, organizations, installationKey })
      const { credentials } = secrets.parts
      return { secrets, bakes: createBakeRole({ config, world, organizations, credentials }) }
    })
    const { secrets, bakes } = made
    const stopping = new AbortController()
    this.#running = { ...made, forget, stopping }
    const watches = this.watches
    for (const watch of watches) watch.start()
    const stopped = new Promise((resolve) =>
      stopping.signal.addEventListener('abort', resolve, { once: true }),
    )
    await Promise.race([stopped, Promise.all(watches.map((watch) => watch.synced))])
    if (stopping.signal.aborted) return
    secrets.start()
    bakes.start()
    void retention.followLog(this.#options.shownUpTo)
    keyStore
      .sweep(world.clock.now())
      .catch((error: unknown) => world.log.warn('Keys left behind could not be removed', { error }))
    const isKnown = (name: string) => parts.catalogue.get(name) !== undefined
    if (config.shippedEventTypes) void makeShippedTypes(world, isKnown)
  }

  /** Resolves when nothing of it is under way. */
  async stop(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    running?.stopping.abort()
    running?.forget()
    this.#options.parts.retention.leaveLog()
    await Promise.all([running?.secrets.stop(), running?.bakes.stop()])
  }
}
