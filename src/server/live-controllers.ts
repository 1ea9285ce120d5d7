/** Whether somebody drives endpoints. */
import { leases, leaseTimes, MAX_LEASES, REPLICA_LABEL } from '../apis/leases.ts'
import type { RawObject, ResourceReader } from '../kube/client.ts'
import type { Clock } from '../lib/ports-clock.ts'

export type LiveControllersOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  /** That of Leases. */
  clock: Pick<Clock, 'now'>
}

const CONTROLLER_ROLE = 'controller'
/** Clocks differ, and what a replica has begun before its Lease ended may take as long as an attempt. */
const SLACK_MS = 60_000

export class LiveControllers {
  readonly #options: LiveControllersOptions

  constructor(options: LiveControllersOptions) {
    this.#options = options
  }

  /** Of one that died it is said for a while longer. @throws ApiError */
  async anyLives(): Promise<boolean> {
    const { resources, namespace, clock } = this.#options
    const labelSelector = `${REPLICA_LABEL}=${CONTROLLER_ROLE}`
    const { items } = await resources.list(leases, { namespace, labelSelector, limit: MAX_LEASES })
    return items.some((raw) => mayLive(raw, clock.now()))
  }
}

/** What cannot be read may be of one that lives. */
function mayLive(raw: RawObject, now: number): boolean {
  const { renewTime = '', leaseDurationSeconds = 0 } = leaseTimes.safeParse(raw).data?.spec ?? {}
  const renewedAt = Date.parse(renewTime)
  return Number.isNaN(renewedAt) || now - renewedAt < leaseDurationSeconds * 1000 + SLACK_MS
}
