/** Sessions of the roles of organizations: assumed with Davit's own identity, narrowed by a policy, and cached. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { unlessAborted } from '../../lib/time.ts'
import { type CallLimits, type CloudAccess, CloudError, isCloudError } from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import { type AwsClients, type Credentials, credentialsIn, type Sts } from './clients.ts'
import { sanitizeMessage } from './errors.ts'
import type { SessionPurpose } from './policies.ts'

type SessionTerms = {
  /** Shown in the organization's CloudTrail; word characters and `+=,.@-`, at most 64. */
  name: string
  /** IAM policy that narrows the session, as JSON, at most 2,048 characters. */
  policy: string
  tags: Readonly<Record<string, string>>
}

/** What to ask for when Davit assumes the role of an organization. Pure. */
export type SessionRules = (access: CloudAccess, purpose: SessionPurpose) => SessionTerms

type RoleRequest = {
  roleArn: string
  region: string
  externalId: string
  terms: SessionTerms
  /** 900 to 3,600, the maximum for a role that was assumed by a role. */
  seconds: number
}

export type AssumedRole = { credentials: Credentials; arn: string }

/** Assumes a role with the identity of this process, at the STS of the region. @throws CloudError */
export async function assumeRole(
  dependencies: AwsDependencies & { clients: AwsClients },
  request: RoleRequest,
  limits: CallLimits,
): Promise<AssumedRole> {
  const { clients } = dependencies
  return await runCall(dependencies, {
    operation: 'sts:AssumeRole',
    limits,
    connect: () => ownIdentity(clients, request.region),
    send: async ({ module, client }, signal) => {
      const command = new module.AssumeRoleCommand({
        RoleArn: request.roleArn,
        ExternalId: request.externalId,
        RoleSessionName: request.terms.name,
        Policy: request.terms.policy,
        Tags: Object.entries(request.terms.tags).map(([Key, Value]) => ({ Key, Value })),
        DurationSeconds: request.seconds,
      })
      const { Credentials: given, AssumedRoleUser } = await clients.timed(client, () =>
        client.send(command, { abortSignal: signal }),
      )
      return { credentials: credentialsIn(given), arn: AssumedRoleUser?.Arn ?? '' }
    },
    // The identity of this process has expired or is not accepted; its environment may have a new one.
    forgetSession: () => clients.forgetIdentity(request.region),
  })
}

/** A missing identity is Davit's own problem, and must not look like a refusal by the organization's role. */
export async function ownIdentity(clients: AwsClients, region: string): Promise<Sts> {
  const sts = await clients.ownSts(region)
  try {
    await sts.client.config.credentials()
  } catch (error) {
    const detail = error instanceof Error ? sanitizeMessage(error.message, []) : ''
    throw new CloudError('retry', 'NoIdentity', `Davit has no AWS identity: ${detail}`, {
      operation: 'sts:AssumeRole',
    })
  }
  return sts
}

export type SessionsOptions = AwsDependencies & {
  clients: AwsClients
  rules: SessionRules
  /** Lifetime of a writing session, 900 to 3,600. */
  sessionSeconds: number
  /** Cached sessions; the least recently used one is dropped first. */
  maxSessions: number
}

/** The shortest lifetime that STS allows. */
const SHORTEST_SECONDS = 900
/** Below this part of its lifetime a session is renewed in the background. */
const RENEW_PART = 0.25
/** A session with less than this left is not used. */
const SPARE_MS = 60_000
/** How long a failure is cached, so that not every credential asks for a role that refuses. */
const REFUSED_MS = 10_000
const FAILED_MS = 1000

type Session = AssumedRole & { endsAt: number; lifeMs: number }

type Entry = {
  session?: Session
  pending?: Promise<Session>
  failure?: { error: CloudError; until: number }
}

/**
 * Sessions of the organizations' roles. One is shared only by calls that ask for the same role, external id, organization,
 * region and purpose on the same terms.
 */
export class Sessions {
  readonly #options: SessionsOptions
  readonly #entries: LRUCache<string, Entry>

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#entries = new LRUCache({ max: options.maxSessions })
  }

  /** A session with enough time left. @throws CloudError, also a cached one */
  async of(access: CloudAccess, purpose: SessionPurpose, signal: AbortSignal): Promise<AssumedRole> {
    const entry = this.#entryOf(access, purpose)
    const now = this.#options.clock.monotonic()
    const { session } = entry
    if (session && session.endsAt - now > SPARE_MS) {
      if (session.endsAt - now < session.lifeMs * RENEW_PART) this.#renewInBackground(entry, access, purpose)
      return session
    }
    if (entry.failure && now < entry.failure.until) throw entry.failure.error
    return await unlessAborted(signal, this.#inFlight(entry, access, purpose))
  }

  /** A new session, which replaces the cached one. */
  async renew(access: CloudAccess, purpose: SessionPurpose, limits: CallLimits): Promise<AssumedRole> {
    const entry = this.#entryOf(access, purpose)
    return await this.#assume(entry, access, { purpose, limits })
  }

  /** Drops `role`, which is no longer accepted, unless it was replaced already. */
  forget(access: CloudAccess, purpose: SessionPurpose, role: AssumedRole): void {
    const entry = this.#entries.get(this.#keyOf(access, purpose))
    if (entry?.session === role) delete entry.session
  }

  requestFor(access: CloudAccess, purpose: SessionPurpose): RoleRequest {
    const { roleArn, region, externalId } = access
    const seconds = purpose === 'write' ? this.#options.sessionSeconds : SHORTEST_SECONDS
    return { roleArn, region, externalId, seconds, terms: this.#options.rules(access, purpose) }
  }

  #renewInBackground(entry: Entry, access: CloudAccess, purpose: SessionPurpose): void {
    if (entry.failure && this.#options.clock.monotonic() < entry.failure.until) return
    // If it fails, the first call without a usable session gets the error.
    this.#inFlight(entry, access, purpose).catch(() => undefined)
  }

  /** One request for all that wait; its deadline does not depend on the first of them. */
  #inFlight(entry: Entry, access: CloudAccess, purpose: SessionPurpose): Promise<Session> {
    entry.pending ??= this.#assume(entry, access, { purpose, limits: {} }).finally(() => {
      delete entry.pending
    })
    return entry.pending
  }

  async #assume(
    entry: Entry,
    access: CloudAccess,
    { purpose, limits }: { purpose: SessionPurpose; limits: CallLimits },
  ): Promise<Session> {
    const { clock } = this.#options
    const request = this.requestFor(access, purpose)
    // Before the request, since the lifetime that STS counts begins later.
    const begin = clock.monotonic()
    const lifeMs = request.seconds * 1000
    try {
      const role = await assumeRole(this.#options, request, limits)
      const session = { ...role, lifeMs, endsAt: begin + lifeMs }
      entry.session = session
      delete entry.failure
      return session
    } catch (error) {
      if (isCloudError(error) && error.code !== 'Canceled') {
        const forMs = error.remedy === 'retry' ? FAILED_MS : REFUSED_MS
        entry.failure = { error, until: clock.monotonic() + forMs }
      }
      throw error
    }
  }

  #entryOf(access: CloudAccess, purpose: SessionPurpose): Entry {
    const key = this.#keyOf(access, purpose)
    const entry = this.#entries.get(key) ?? {}
    this.#entries.set(key, entry)
    return entry
  }

  #keyOf(access: CloudAccess, purpose: SessionPurpose): string {
    const { organizationUid } = access
    const parts = [organizationUid, purpose, this.requestFor(access, purpose)]
    return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
  }
}
