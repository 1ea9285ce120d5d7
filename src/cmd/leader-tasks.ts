/**
 * What one replica does for all of them: credentials, accounts, boxes and the retention of the delivery log. The owner of shard 0
 * does it. Each start builds everything from scratch, so that nothing is left over from an earlier ownership.
 */
import { CloudError } from '../credentials/cloud.ts'
import { withFencing } from '../ha/ownership.ts'
import type { Watch } from '../kube/watch-restarts.ts'
import { ensureBuiltinEventTypes } from '../webhooks/endpoints/event-types.ts'
import type { Config } from './config.ts'
import {
  type BoxController,
  type CredentialControllers,
  createBoxController,
  createCredentialControllers,
  createEventTypeLoop,
  type WebhookControllers,
} from './controller.ts'
import type { ControllerDependencies } from './dependencies.ts'
import type { Replica } from './replica.ts'

/** The shard whose owner is the leader. */
export const LEADER_SHARD = 0

export type LeaderTasksOptions = {
  config: Config
  dependencies: ControllerDependencies
  webhooks: WebhookControllers
  replica: Pick<Replica, 'ownershipCheck'>
  installationKey: Uint8Array
}

type LeaderControllers = {
  credentials: CredentialControllers
  boxes: BoxController
  eventTypes: ReturnType<typeof createEventTypeLoop>
}

export class LeaderTasks {
  readonly #options: LeaderTasksOptions
  #running: (LeaderControllers & { forget: () => void; stopping: AbortController }) | undefined

  constructor(options: LeaderTasksOptions) {
    this.#options = options
  }

  /** Undefined while another replica is the leader. */
  get running(): LeaderControllers | undefined {
    return this.#running
  }

  get watches(): readonly Watch[] {
    return this.#running ? [...this.#running.credentials.watches, ...this.#running.boxes.watches] : []
  }

  /**
   * Resolves when its watches are synced and its loops run, or when it was stopped before that. Do not wait for it: if it cannot
   * read something, deliveries go on. Does nothing while they run.
   */
  async start(): Promise<void> {
    if (this.#running) return
    const { config, dependencies: unfenced, webhooks, replica, installationKey } = this.#options
    // For this start alone: after another replica was the leader it writes nothing more, neither to the cluster nor to accounts.
    const mayWrite = replica.ownershipCheck(LEADER_SHARD)
    const dependencies = {
      ...unfenced,
      api: withFencing(unfenced.api, mayWrite),
      cloud: withCloudFencing(unfenced.cloud, mayWrite),
    }
    const { organizations, keyStore, retention, catalogue } = webhooks
    const { made, forget } = organizations.whileMaking((): LeaderControllers => {
      const shared = { config, dependencies, organizations }
      const credentials = createCredentialControllers({ ...shared, installationKey })
      const boxes = createBoxController({ ...shared, credentials: credentials.credentials })
      return { credentials, boxes, eventTypes: createEventTypeLoop(dependencies, catalogue) }
    })
    const stopping = new AbortController()
    this.#running = { ...made, forget, stopping }
    const watches = this.watches
    for (const watch of watches) watch.start()
    const stopped = new Promise((resolve) =>
      stopping.signal.addEventListener('abort', resolve, { once: true }),
    )
    await Promise.race([stopped, Promise.all(watches.map((watch) => watch.synced))])
    if (stopping.signal.aborted) return
    made.credentials.start()
    made.boxes.start()
    made.eventTypes.loop.start()
    void retention.followLog(() => webhooks.watches.log.version)
    keyStore.removeAbandoned(dependencies.clock.now()).catch((error: unknown) =>
      dependencies.log.warn('signing_secret_cleanup_failed', 'failed to remove abandoned signing secrets', {
        error,
      }),
    )
    const isKnown = (name: string) => catalogue.get(name) !== undefined
    void ensureBuiltinEventTypes(dependencies, config.omittedEventTypes, isKnown)
  }

  /** Resolves when nothing of it is in progress. */
  async stop(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    running?.stopping.abort()
    running?.forget()
    this.#options.webhooks.retention.leaveLog()
    running?.eventTypes.forget()
    await Promise.all([running?.credentials.stop(), running?.boxes.stop(), running?.eventTypes.loop.stop()])
  }
}

type Cloud = ControllerDependencies['cloud']

/** The same accounts, but writes fail before they are sent while another replica may be the leader. */
export function withCloudFencing(cloud: Cloud, mayWrite: () => boolean): Cloud {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayWrite()) return await write()
    throw new CloudError('retry', 'Canceled', 'another replica may have taken over this work')
  }
  return {
    create: (access, parameter, limits) => guard(() => cloud.create(access, parameter, limits)),
    replace: (access, name, value, limits) => guard(() => cloud.replace(access, name, value, limits)),
    remove: (access, name, limits) => guard(() => cloud.remove(access, name, limits)),
    list: (access, filter, limits) => cloud.list(access, filter, limits),
    tagsOf: (access, name, limits) => cloud.tagsOf(access, name, limits),
    self: (limits) => cloud.self(limits),
    identify: (access, limits) => cloud.identify(access, limits),
    readable: (access, name, limits) => cloud.readable(access, name, limits),
    refusesOtherId: (access, limits) => cloud.refusesOtherId(access, limits),
  }
}
