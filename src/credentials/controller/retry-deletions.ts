/** Retries recorded failed deletions: a role may come back, and a quota may be raised. */
import { DNS_LABEL } from '../../apis/meta.ts'
import type { FailedDeletionRecord } from '../../apis/registry-credential.ts'
import { isApiError } from '../../kube/client.ts'
import { type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { findCredential } from '../accounts/disconnect.ts'
import { tryCloud } from '../accounts/identity.ts'
import { credentialOf } from '../aws/names.ts'
import { isOwnedBy } from '../aws/parameter-tags.ts'
import { type CredentialContext, readAccountFacts } from './gather.ts'

/** Records in one pass; the next pass continues after them. */
const BATCH = 50
/** The deletion of a credential of the same name waits no longer than this. */
const LIMITS = { deadlineMs: 10_000, turnMs: 20_000 }

/** What a credential of the same name is to the parameter. `wanted`: it may store its secret there at any moment. */
type Claim = 'recorded' | 'wanted' | 'none'

export class FailedDeletionReconciler implements Reconciler {
  readonly #context: CredentialContext
  readonly #everyMs: number
  #next = 0

  constructor(context: CredentialContext, everyMs: number) {
    this.#context = context
    this.#everyMs = everyMs
  }

  /** There is one key. */
  async reconcile(_key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const records = await this.#context.failedDeletions.list()
    if (this.#next >= records.length) this.#next = 0
    let kept = 0
    for (const record of records.slice(this.#next, this.#next + BATCH))
      if (!(await this.#isResolved(record, signal))) kept += 1
    this.#next += kept
    return requeueAfter(this.#everyMs)
  }

  /** A record that cannot be checked does not keep the others from being checked. */
  async #isResolved(record: FailedDeletionRecord, signal: AbortSignal): Promise<boolean> {
    const { failedDeletions, mutex, prefix, log } = this.#context
    const { organization, name } = record
    try {
      const credential = DNS_LABEL.test(organization)
        ? credentialOf(name, { prefix, organization })
        : undefined
      const isOver = await mutex.run(`${organization}/${credential}`, async () => {
        const claim = credential === undefined ? 'none' : await this.#claimOf(record, credential)
        return claim === 'recorded' || (claim === 'none' && (await this.#isGone(record, signal)))
      })
      if (isOver) await failedDeletions.remove(record)
      return isOver
    } catch (error) {
      signal.throwIfAborted()
      if (isApiError(error, 'Unavailable', 'TooManyRequests')) throw error
      log.warn('orphan_check_failed', 'failed to check orphaned parameter', { error, ...record })
      return false
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

  async #isGone(record: FailedDeletionRecord, signal: AbortSignal): Promise<boolean> {
    const { accounts, cloud, metrics, log } = this.#context
    const { name, organizationUid, region } = record
    const access = accounts.accessAs(record, { region, roleArn: await this.#roleFor(record) })
    const limits = { ...LIMITS, signal }
    const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, name, limits))
    if (failure?.remedy === 'gone') {
      metrics.parameterRemoved('not_found')
      return true
    }
    if (!tags || !isOwnedBy(tags, accounts.ownerOf(organizationUid))) return false
    const { value: outcome } = await tryCloud(() => cloud.remove(access, name, limits))
    if (outcome === undefined) return false
    metrics.parameterRemoved(outcome)
    log.info('orphan_deleted', 'deleted orphaned parameter', { ...record })
    return true
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
