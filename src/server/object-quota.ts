import {
  leases,
  MAX_RESERVATIONS,
  RESERVATION_LABEL,
  RESERVED_IN_LABEL,
  reservation,
} from '../apis/core-kinds.ts'
import type { ResourceType } from '../apis/meta.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import { listObjects } from '../kube/list.ts'
import { microTime } from '../kube/recorder.ts'
import { KeyedSums } from '../lib/fair-queue.ts'
import type { Logger } from '../lib/log.ts'
import { counted } from '../lib/text.ts'
import { type Clock, sleep } from '../lib/time.ts'
import { Problem, rejectedByCluster } from './http/problems.ts'
import { notFoundOr } from './objects.ts'

/**
 * How many objects of a kind an organization may have over REST. A server that creates one reserves its place first, with a Lease in
 * Davit's namespace, and then counts: the objects, and the earlier reservations. The versions of the Leases are their order, so of any number
 * of concurrent creates, through any replicas, no more go on than there are places. A reservation ends when all replicas count the
 * object, or with the create.
 */

type QuotaOptions = {
  code: 'too_many_endpoints' | 'too_many_credentials'
  /** Singular. */
  noun: string
  type: ResourceType
  max: number
  resources: ResourceReader & ResourceWriter
  /** Davit's own namespace. */
  namespace: string
  /** Names of the objects that this replica knows of. */
  known: (organization: string) => string[]
  /** Whether these are all, since the creates of other replicas wait for this one. */
  knowsAll: () => boolean
  clock: Clock
  log: Logger
}

/** For one object that is to be created. A second call of a function does nothing. */
export type QuotaTicket = {
  /** Counts it in this process. @throws the problem of the quota */
  take(): void
  /** Reserves its place among all replicas, shortly before it is created. @throws the problem of the quota; Problem overloaded; ApiError */
  reserve(name: string): Promise<void>
  /** The object is created and counted by itself, or is given up. */
  giveBack(): void
}

/** Of the name of an object. `reservedAt` is monotonic. */
type Reservation = { object: string; version: number; reservedAt: number }

/** An object has to be created within this of its reservation; a call takes ten seconds at most. */
const FRESH_MS = 60_000
/** After that, a reservation is one of a server that died. Clocks of servers may be a minute ahead. */
const EXPIRED_MS = 180_000
/** So far from the limit, what this replica knows is enough. */
const FAR_FROM_LIMIT = 100
const PAGE = 500
const MAX_TRIES = 3
const RETRY_AFTER_SECONDS = 1

export class ObjectQuota {
  readonly #options: QuotaOptions
  /** Objects being created here, by organization. */
  readonly #pending = new KeyedSums()

  constructor(options: QuotaOptions) {
    this.#options = options
  }

  /** Gives `work` a ticket, which ends with it. */
  async during<T>(organization: string, work: (ticket: QuotaTicket) => Promise<T>): Promise<T> {
    let isTaken = false
    let reserved: Reservation | undefined
    const giveBack = () => {
      if (isTaken) this.#pending.add(organization, -1)
      isTaken = false
    }
    const take = () => {
      if (isTaken) return
      const held = this.#options.known(organization).length + this.#pending.of(organization)
      this.#check(held)
      this.#pending.add(organization, 1)
      isTaken = true
    }
    const reserve = async (name: string) => {
      if (!reserved) reserved = await this.#reserve(organization, name)
      else if (this.#options.clock.monotonic() - reserved.reservedAt >= FRESH_MS) throw busy()
    }
    try {
      const result = await work({ take, reserve, giveBack })
      if (reserved) await this.#release(reserved)
      return result
    } catch (error) {
      // If the object exists, other replicas may not count it yet.
      if (reserved && (await this.#isAbsent(organization, reserved))) await this.#release(reserved)
      throw error
    } finally {
      giveBack()
    }
  }

  /** What a client is told if the API server does not create the object. */
  problemOf(error: unknown): unknown {
    if (!isApiError(error, 'Quota')) return rejectedByCluster(notFoundOr(error))
    const { code, noun } = this.#options
    const detail = `A ResourceQuota in the organization's namespace does not allow another ${noun}. Delete one, or ask your cluster operator to raise the quota.`
    return new Problem(code, { detail, cause: error })
  }

  #check(held: number): void {
    const { code, noun, max } = this.#options
    if (held < max) return
    const detail = `The organization has ${counted(held, noun)}, and the limit is ${max}. Delete one first.`
    throw new Problem(code, { detail })
  }

  async #reserve(organization: string, name: string): Promise<Reservation> {
    const reserved = await this.#hold(organization, name)
    try {
      const earlier = (await this.#reservations(organization))
        // Those of servers that died do not count; removeExpiredReservationsForever removes them.
        .filter(({ reservedAt }) => this.#options.clock.monotonic() - reservedAt < EXPIRED_MS)
        .filter(({ version }) => version < reserved.version)
        .map((one) => one.object)
      // After the reservations: where one is gone by now, its object is there.
      const objects = await this.#objects(organization, earlier.length)
      this.#check(new Set([...objects, ...earlier].filter((one) => one !== name)).size)
      return reserved
    } catch (error) {
      await this.#release(reserved)
      throw error
    }
  }

  /** Creates the Lease, or takes over that of an earlier request under the same Idempotency-Key. */
  async #hold(organization: string, object: string): Promise<Reservation> {
    const { clock } = this.#options
    for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
      const reservedAt = clock.monotonic()
      const version = await this.#create(organization, object)
      if (version !== undefined) return { object, version, reservedAt }
      const held = (await this.#reservations(organization)).find((one) => one.object === object)
      if (held && clock.monotonic() - held.reservedAt < FRESH_MS) return held
      if (held) await this.#release(held)
    }
    throw busy()
  }

  /** @returns its version; undefined if it exists */
  async #create(organization: string, object: string): Promise<number | undefined> {
    const { type, resources, namespace, clock } = this.#options
    const labels = { [RESERVATION_LABEL]: type.plural, [RESERVED_IN_LABEL]: organization }
    try {
      const created = await resources.create(leases, {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { namespace, name: this.#nameFor(object), labels },
        spec: { leaseDurationSeconds: EXPIRED_MS / 1000, acquireTime: microTime(clock.now()) },
      })
      return Number(created.metadata.resourceVersion)
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) return undefined
      throw ofOwnNamespace(error)
    }
  }

  async #reservations(organization: string): Promise<Reservation[]> {
    const { type, resources, namespace, clock } = this.#options
    const labelSelector = `${RESERVATION_LABEL}=${type.plural},${RESERVED_IN_LABEL}=${organization}`
    const query = { namespace, labelSelector, limit: MAX_RESERVATIONS }
    const page = await resources.list(leases, query).catch((error: unknown) => {
      throw ofOwnNamespace(error)
    })
    if (page.continue !== undefined) throw busy()
    const prefix = this.#nameFor('')
    return page.items
      .map((raw) => readReservation(raw, clock))
      .map(({ name, version, ageMs }) => ({
        object: name.slice(prefix.length),
        version,
        reservedAt: clock.monotonic() - ageMs,
      }))
  }

  async #objects(organization: string, reserved: number): Promise<string[]> {
    const { type, max, resources, known, knowsAll } = this.#options
    const names = known(organization)
    if (knowsAll() && names.length + reserved + FAR_FROM_LIMIT < max) return names
    const found: string[] = []
    for await (const { metadata } of listObjects(resources, type, { namespace: organization, limit: PAGE }))
      found.push(metadata.name)
    return found
  }

  async #isAbsent(namespace: string, { object }: Reservation): Promise<boolean> {
    const { type, resources } = this.#options
    const find = findObject(resources, type, { namespace, name: object })
    return await find.then((found) => found === undefined).catch(() => false)
  }

  /** Without that it expires. */
  async #release({ object, version }: Reservation): Promise<void> {
    await removeReservation(this.#options, { name: this.#nameFor(object), version })
  }

  #nameFor(object: string): string {
    return `davit-api-${this.#options.type.plural}-${object}`
  }
}

type Lease = { name: string; version: number; ageMs: number }

function readReservation(raw: unknown, clock: Clock): Lease {
  const { name, resourceVersion, creationTimestamp } = reservation.parse(raw).metadata
  return { name, version: Number(resourceVersion), ageMs: clock.now() - Date.parse(creationTimestamp) }
}

type ReservationSweep = Pick<QuotaOptions, 'resources' | 'namespace' | 'clock' | 'log'>

async function removeReservation(
  { resources, namespace, log }: ReservationSweep,
  { name, version }: Pick<Lease, 'name' | 'version'>,
): Promise<void> {
  try {
    await resources.delete(leases, { namespace, name }, { resourceVersion: String(version) })
  } catch (error) {
    if (isApiError(error, 'NotFound', 'Conflict')) return
    log.warn('reservation_removal_failed', 'failed to remove a reservation; it expires', { name, error })
  }
}

const SWEEP_EVERY_MS = 60_000

/** Removes what servers left that died, or that could not tell whether others count the object. For all kinds and organizations. */
export async function removeExpiredReservationsForever(
  options: ReservationSweep,
  signal: AbortSignal,
): Promise<void> {
  const { resources, namespace, clock, log } = options
  const query = { namespace, labelSelector: RESERVATION_LABEL, limit: PAGE }
  for (;;) {
    await sleep(clock, SWEEP_EVERY_MS, signal)
    if (signal.aborted) return
    try {
      for await (const raw of listObjects(resources, leases, query)) {
        if (signal.aborted) return
        const found = readReservation(raw, clock)
        if (found.ageMs >= EXPIRED_MS) await removeReservation(options, found)
      }
    } catch (error) {
      log.warn('reservation_sweep_failed', 'failed to look for expired reservations; retrying', { error })
    }
  }
}

function busy(cause?: unknown): Problem {
  return new Problem('overloaded', { retryAfter: RETRY_AFTER_SECONDS, cause })
}

/** In Davit's own namespace these say nothing of the organization. */
function ofOwnNamespace(error: unknown): unknown {
  return isApiError(error, 'Quota', 'Forbidden', 'Terminating', 'NotFound') ? busy(error) : error
}
