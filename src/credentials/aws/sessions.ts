import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { unlessAborted } from '../../lib/sleep.ts'
import { type CallLimits, type CloudAccess, CloudError, isCloudError } from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients, Credentials, Sts } from './clients.ts'
import { sanitizeMessage } from './errors.ts'

/**
 * What a session is for: to write and never read, or to find out whether the role could read, for which the session itself
 * must not be what refuses.
 */
export type SessionPurpose = 'write' | 'probe'

/** What Davit asks for when it assumes the role of an organization. */
type SessionTerms = {
  /** Seen in the organization's own trail; word characters and `+=,.@-`, at most 64. */
  name: string
  /** IAM policy that narrows the session, as JSON, at most 2,048 characters. */
  policy: string
  tags: Readonly<Record<string, string>>
}

/** The terms of an organization's session; they are decided outside, since they are rules and not calls. Pure. */
export type SessionRules = (access: CloudAccess, purpose: SessionPurpose) => SessionTerms

type RoleRequest = {
  roleArn: string
  region: string
  externalId: string
  terms: SessionTerms
  /** 900 to 3,600: that much is given to a role that is itself assumed by a role. */
  seconds: number
}

export type AssumedRole = { credentials: Credentials; arn: string }

/** Assumes a role with the identity of this process, at the STS of the region. Throws CloudError. */
export async function assumeRole(
  world: AwsDependencies & { clients: AwsClients },
  request: RoleRequest,
  limits: CallLimits,
): Promise<AssumedRole> {
  const { clients } = world
  return await runCall(world, {
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
      const { AccessKeyId, SecretAccessKey, SessionToken } = given ?? {}
      if (!AccessKeyId || !SecretAccessKey || !SessionToken) {
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no credentials.')
      }
      return {
        credentials: {
          accessKeyId: AccessKeyId,
          secretAccessKey: SecretAccessKey,
          sessionToken: SessionToken,
        },
        arn: AssumedRoleUser?.Arn ?? '',
      }
    },
    // The identity of this process has ended or is not accepted: perhaps its environment has a new one by now.
    forgetSession: () => clients.forgetIdentity(request.region),
  })
}

/** A failure to have an identity is Davit's own matter, and must not look like a refusal of the organization's role. */
export async function ownIdentity(clients: AwsClients, region: string): Promise<Sts> {
  const sts = await clients.ownSts(region)
  try {
    await sts.client.config.credentials()
  } catch (error) {
    const words = error instanceof Error ? sanitizeMessage(error.message, []) : ''
    throw new CloudError('retry', 'NoIdentity', `Davit has no identity of its own at AWS: ${words}`, {
      operation: 'sts:AssumeRole',
    })
  }
  return sts
}

export type SessionsOptions = AwsDependencies & {
  clients: AwsClients
  rules: SessionRules
  /** Life of a session that writes, 900 to 3,600. */
  sessionSeconds: number
  /** Sessions that are remembered; the one that was not used for longest goes first. */
  maxSessions: number
}

/** The shortest life that STS gives. */
const SHORTEST_SECONDS = 900
/** A session with less than this part of its life left is renewed beside its use. */
const RENEW_PART = 0.25
/** A session with less than this left is not begun with. */
const SPARE_MS = 60_000
/** What is found out of a role holds so long, so that one which is refused is not asked for by each credential. */
const REFUSED_MS = 10_000
const FAILED_MS = 1000

type Session = AssumedRole & { endsAt: number; lifeMs: number }

type Entry = {
  session?: Session
  flight?: Promise<Session>
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

  /** A session with enough of its life left. Throws CloudError, also that of a short while ago. */
  async of(access: CloudAccess, purpose: SessionPurpose, signal: AbortSignal): Promise<AssumedRole> {
    const entry = this.#entryOf(access, purpose)
    const now = this.#options.clock.monotonic()
    const { session } = entry
    if (session && session.endsAt - now > SPARE_MS) {
      if (session.endsAt - now < session.lifeMs * RENEW_PART) this.#renewBeside(entry, access, purpose)
      return session
    }
    if (entry.failure && now < entry.failure.until) throw entry.failure.error
    return await unlessAborted(signal, this.#flightOf(entry, access, purpose))
  }

  /** A session that is made now, whatever is remembered; it is the one that is used from now on. */
  async renew(access: CloudAccess, purpose: SessionPurpose, limits: CallLimits): Promise<AssumedRole> {
    const entry = this.#entryOf(access, purpose)
    return await this.#assume(entry, access, { purpose, limits })
  }

  /** `role` is no longer accepted; what was made in its place stays. */
  forget(access: CloudAccess, purpose: SessionPurpose, role: AssumedRole): void {
    const entry = this.#entries.get(this.#keyOf(access, purpose))
    if (entry?.session === role) delete entry.session
  }

  requestFor(access: CloudAccess, purpose: SessionPurpose): RoleRequest {
    const { roleArn, region, externalId } = access
    const seconds = purpose === 'write' ? this.#options.sessionSeconds : SHORTEST_SECONDS
    return { roleArn, region, externalId, seconds, terms: this.#options.rules(access, purpose) }
  }

  #renewBeside(entry: Entry, access: CloudAccess, purpose: SessionPurpose): void {
    if (entry.failure && this.#options.clock.monotonic() < entry.failure.until) return
    // Whoever needs it when the session ends is told then.
    this.#flightOf(entry, access, purpose).catch(() => undefined)
  }

  /** One at a time for all that wait for it; its time does not depend on who came first. */
  #flightOf(entry: Entry, access: CloudAccess, purpose: SessionPurpose): Promise<Session> {
    entry.flight ??= this.#assume(entry, access, { purpose, limits: {} }).finally(() => {
      delete entry.flight
    })
    return entry.flight
  }

  async #assume(
    entry: Entry,
    access: CloudAccess,
    { purpose, limits }: { purpose: SessionPurpose; limits: CallLimits },
  ): Promise<Session> {
    const { clock } = this.#options
    const request = this.requestFor(access, purpose)
    // From before the request: the life that STS counts begins later.
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
