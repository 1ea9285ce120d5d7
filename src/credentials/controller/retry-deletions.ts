/** Retries recorded failed deletions: a role may come back, and a quota may be raised. */
import { DNS_LABEL } from '../../apis/meta.ts'
import type { FailedDeletionRecord } from '../../apis/registry-credential.ts'
import { isApiError } from '../../kube/client.ts'
import { type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { FairQueue } from '../../lib/fair-queue.ts'
import { findCredential } from '../accounts/disconnect.ts'
import { tryCloud } from '../accounts/identity.ts'
import { credentialOf } from '../aws/names.ts'
import { isOwnedBy } from '../aws/parameter-tags.ts'
import type { CloudFailure } from '../cloud.ts'
import { keyOf } from './failed-deletions.ts'
import { type CredentialContext, readAccountFacts } from './gather.ts'

/** Records in one pass; the next pass continues after them. */
const BATCH = 50
/** Organizations at a time, and of each of them one record. */
const AT_A_TIME = 8
/** The deletion of a credential of the same name waits no longer than this. */
const LIMITS = { deadlineMs: 10_000, turnMs: 20_000 }

/** What a credential of the same name is to the parameter. `wanted`: it may store its secret there at any moment. */
type Claim = 'recorded' | 'wanted' | 'none'

/** `away`: its account does not answer now, so the other records of the organization wait for the next pass. */
type Outcome = 'resolved' | 'kept' | 'away'

/**
 * Tries some records at a time, in turns by organization: an account that throttles or does not answer delays only its own records, one of
 * which is tried in each pass.
 */
export class FailedDeletionReconciler implements Reconciler {
  readonly #context: CredentialContext
  readonly #everyMs: number
  /** Number of the last try of each record. */
  #tried: ReadonlyMap<string, number> = new Map()
  #tries = 0

  constructor(context: CredentialContext, everyMs: number) {
    this.#context = context
    this.#everyMs = everyMs
  }

  /** There is one key. */
  async reconcile(_key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const records = await this.#context.failedDeletions.list()
    const keys = new Set(records.map(keyOf))
    const tried = new Map([...this.#tried].filter(([key]) => keys.has(key)))
    this.#tried = tried
    const turns = turnsOf(records, tried)
    const busy = new Set<string>()
    let left = BATCH
    const failures: unknown[] = []
    const work = async () => {
      while (left > 0 && failures.length === 0 && !signal.aborted) {
        const record = turns.take((organization) => !busy.has(organization))
        if (!record) return
        left -= 1
        this.#tries += 1
        tried.set(keyOf(record), this.#tries)
        busy.add(record.organization)
        try {
          const outcome = await this.#retry(record, signal)
          if (outcome !== 'away') busy.delete(record.organization)
        } catch (error) {
          failures.push(error)
        }
      }
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, work))
    signal.throwIfAborted()
    if (failures.length > 0) throw failures[0]
    return requeueAfter(this.#everyMs)
  }

  /** A record that cannot be checked does not keep the others from being checked. */
  async #retry(record: FailedDeletionRecord, signal: AbortSignal): Promise<Outcome> {
    const { failedDeletions, mutex, prefix, log } = this.#context
    const { organization, name } = record
    try {
      const credential = DNS_LABEL.test(organization)
        ? credentialOf(name, { prefix, organization })
        : undefined
      const outcome = await mutex.run(`${organization}/${credential}`, async () => {
        const claim = credential === undefined ? 'none' : await this.#claimOf(record, credential)
        if (claim === 'none') return await this.#remove(record, signal)
        return claim === 'recorded' ? 'resolved' : 'kept'
      })
      if (outcome === 'resolved') await failedDeletions.remove(record)
      return outcome
    } catch (error) {
      signal.throwIfAborted()
      if (isApiError(error, 'Unavailable', 'TooManyRequests')) throw error
      log.warn('orphan_check_failed', 'failed to check orphaned parameter', { error, ...record })
      return 'kept'
    }
  }

  async #claimOf(record: FailedDeletionRecord, credential: string): Promise<Claim> {
    const { organization, account, region } = record
    const { resources } = this.#context
    const found = await findCredential(resources, organization, credential)
    if (found === 'unreadable') return 'wanted'
    // One of the type ecr has no parameter, and never gets one.
    if (found === undefined || found.spec.type === 'ecr') return 'none'
    const stored = found.status?.parameter
    const isHere = (at: { account: string; region: string } | undefined) =>
      at?.account === account && at.region === region
    if (isHere(stored) && stored?.name === record.name) return 'recorded'
    const { location } = await readAccountFacts(resources, organization, record.name)
    return isHere(location) ? 'wanted' : 'none'
  }

  async #remove(record: FailedDeletionRecord, signal: AbortSignal): Promise<Outcome> {
    const { accounts, cloud, metrics, log } = this.#context
    const { name, organizationUid, region } = record
    const access = accounts.accessAs(record, { region, roleArn: await this.#roleFor(record) })
    const limits = { ...LIMITS, signal }
    const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, name, limits))
    if (failure?.remedy === 'gone') {
      metrics.parameterRemoved('not_found')
      return 'resolved'
    }
    if (failure) return outcomeOf(failure)
    if (!isOwnedBy(tags, accounts.ownerOf(organizationUid))) return 'kept'
    const removal = await tryCloud(() => cloud.remove(access, name, limits))
    if (removal.failure) return outcomeOf(removal.failure)
    metrics.parameterRemoved(removal.value)
    log.info('orphan_deleted', 'deleted orphaned parameter', { ...record })
    return 'resolved'
  }

  /** The role that the organization has for this account now, or else the one that wrote the parameter. */
  async #roleFor(record: FailedDeletionRecord): Promise<string> {
    const { organization, name, account, region, roleArn } = record
    const { organizations, resources } = this.#context
    if (organizations.get(organization)?.uid !== record.organizationUid) return roleArn
    const facts = await readAccountFacts(resources, organization, name)
    const isHere =
      facts.state === 'ready' && facts.location.account === account && facts.location.region === region
    return isHere ? facts.location.roleArn : roleArn
  }
}

/** Those first that were tried least recently, and of these the oldest. */
function turnsOf(
  records: readonly FailedDeletionRecord[],
  tried: ReadonlyMap<string, number>,
): FairQueue<FailedDeletionRecord> {
  const lastTries = new Map(records.map((record) => [record, tried.get(keyOf(record)) ?? 0]))
  const lastTry = (record: FailedDeletionRecord) => lastTries.get(record) ?? 0
  const turns = new FairQueue<FailedDeletionRecord>()
  for (const record of [...records].sort((a, b) => lastTry(a) - lastTry(b)))
    turns.push(record.organization, record)
  return turns
}

function outcomeOf({ remedy }: CloudFailure): Outcome {
  return remedy === 'retry' ? 'away' : 'kept'
}
