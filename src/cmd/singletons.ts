/** What one replica does for all: whoever owns the first shard. It is made anew each time, and knows nothing of before. */

import { withFencing } from '../ha/fence.ts'
import type { Informer } from '../kube/informer.ts'
import { ensureBuiltinEventTypes } from '../webhooks/endpoints/shipped-types.ts'
import { type BoxController, createBoxController } from './box-controller.ts'
import type { Config } from './config.ts'
import { withCloudFencing } from './fenced-cloud.ts'
import type { Replica } from './replica.ts'
import { type CredentialControllers, createCredentialControllers } from './secrets-role.ts'
import type { WebhookControllers } from './webhook-controllers.ts'
import type { ControllerDependencies } from './world-types.ts'

/** Its owner is who does it. */
export const LEADER_SHARD = 0

export type LeaderTasksOptions = {
  config: Config
  world: ControllerDependencies
  parts: WebhookControllers
  replica: Pick<Replica, 'ownershipCheck'>
  installationKey: Uint8Array
  /** Every segment of events up to this version was shown. */
  observedVersion: () => number
}

type Running = { secrets: CredentialControllers; bakes: BoxController }
type Made = Running & { forget: () => void; stopping: AbortController }

export class LeaderTasks {
  readonly #options: LeaderTasksOptions
  #running: Made | undefined

  constructor(options: LeaderTasksOptions) {
    this.#options = options
  }

  /** Undefined where another replica does it. */
  get running(): Running | undefined {
    return this.#running
  }

  get watches(): readonly Informer<unknown>[] {
    return this.#running ? [...this.#running.secrets.watches, ...this.#running.bakes.watches] : []
  }

  /**
   * Resolves when all that it looks at is known and it has begun, or when it is stopped before. Nobody has to wait for it: where
   * something of it cannot be read, deliveries go on.
   */
  async start(): Promise<void> {
    const { config, parts, replica, installationKey } = this.#options
    // Of this start alone: one that another replica has followed writes nothing more, in the cluster or in accounts.
    const mayWrite = replica.ownershipCheck(LEADER_SHARD)
    const { api, cloud } = this.#options.world
    const world = {
      ...this.#options.world,
      api: withFencing(api, mayWrite),
      cloud: withCloudFencing(cloud, mayWrite),
    }
    const { organizations, keyStore, retention } = parts
    const { made, forget } = organizations.whileMaking((): Running => {
      const secrets = createCredentialControllers({ config, world, organizations, installationKey })
      const { credentials } = secrets.parts
      return { secrets, bakes: createBoxController({ config, world, organizations, credentials }) }
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
    void retention.followLog(this.#options.observedVersion)
    keyStore
      .removeAbandoned(world.clock.now())
      .catch((error: unknown) => world.log.warn('Keys left behind could not be removed', { error }))
    const isKnown = (name: string) => parts.catalogue.get(name) !== undefined
    if (config.shippedEventTypes) void ensureBuiltinEventTypes(world, isKnown)
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
