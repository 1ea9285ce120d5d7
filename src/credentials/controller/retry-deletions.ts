/** Tries again to remove recorded orphans: a role may come back, and a quota end. */
import { DNS_LABEL } from '../../apis/meta.ts'
import {
  type FailedDeletionRecord,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { isApiError } from '../../kube/client.ts'
import { type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { tryCloud } from '../accounts/identity.ts'
import { credentialOf, isOwnedBy } from '../aws/names.ts'
import { type CredentialContext, readAccountFacts } from './gather.ts'

/** In one pass; the next goes on behind them. */
const AT_A_TIME = 50
/** Whoever deletes a credential of the same name waits no longer than this. */
const LIMITS = { deadlineMs: 10_000, turnMs: 20_000 }

/** `wanted`: a credential of the same name may be given its secret at any moment. */
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
    const orphans = await this.#context.failedDeletions.list()
    if (this.#next >= orphans.length) this.#next = 0
    const now = orphans.slice(this.#next, this.#next + AT_A_TIME)
    let kept = 0
    for (const orphan of now) if (!(await this.#isSettled(orphan, signal))) kept += 1
    this.#next += kept
    return requeueAfter(this.#everyMs)
  }

  /** One that cannot be looked at keeps no other from being looked at. */
  async #isSettled(orphan: FailedDeletionRecord, signal: AbortSignal): Promise<boolean> {
    const { failedDeletions, mutex, prefix, log } = this.#context
    const { organization, name } = orphan
    try {
      const credential = DNS_LABEL.test(organization)
        ? credentialOf(name, { prefix, organization })
        : undefined
      const isOver = await mutex.run(`${organization}/${credential}`, async () => {
        const claim = credential === undefined ? 'none' : await this.#claimOf(orphan, credential)
        return claim === 'recorded' || (claim === 'none' && (await this.#isGone(orphan, signal)))
      })
      if (isOver) await failedDeletions.remove(orphan)
      return isOver
    } catch (error) {
      signal.throwIfAborted()
      if (isApiError(error, 'Unavailable', 'TooManyRequests')) throw error
      log.warn('An orphaned parameter could not be looked at', { error, ...orphan })
      return false
    }
  }

  /** What a credential of the same name is to it. */
  async #claimOf(orphan: FailedDeletionRecord, name: string): Promise<Claim> {
    const { organization, account, region } = orphan
    const { resources } = this.#context
    const ref = { namespace: organization, name }
    const raw = await unlessGone(() => resources.get(registryCredentials, ref))
    if (raw === undefined) return 'none'
    const { data } = registryCredential.safeParse(raw)
    if (data === undefined) return 'wanted'
    // It has no parameter, and never gets one.
    if (data.spec.type === 'ecr') return 'none'
    const stored = data.status?.parameter
    const isAt = (at: { account: string; region: string } | undefined) =>
      at?.account === account && at.region === region
    if (isAt(stored) && stored?.name === orphan.name) return 'recorded'
    const { place } = await readAccountFacts(resources, organization, orphan.name)
    return isAt(place) ? 'wanted' : 'none'
  }

  async #isGone(orphan: FailedDeletionRecord, signal: AbortSignal): Promise<boolean> {
    const { accounts, cloud, metrics, log } = this.#context
    const { name, organizationUid } = orphan
    const access = accounts.accessAs(orphan, { region: orphan.region, roleArn: await this.#roleFor(orphan) })
    const limits = { ...LIMITS, signal }
    const { value: tags, failure } = await tryCloud(() => cloud.tagsOf(access, name, limits))
    if (failure?.remedy === 'gone') {
      metrics.parameterRemoved('not-found')
      return true
    }
    if (!tags || !isOwnedBy(tags, { installation: accounts.installation, organizationUid })) return false
    const { value: outcome } = await tryCloud(() => cloud.remove(access, name, limits))
    if (outcome === undefined) return false
    metrics.parameterRemoved(outcome)
    log.info('Removed an orphaned parameter', { ...orphan })
    return true
  }

  /** The one that it was written with, or that the organization has for this account now. */
  async #roleFor({
    organization,
    organizationUid,
    name,
    account,
    region,
    roleArn,
  }: FailedDeletionRecord): Promise<string> {
    const known = this.#context.organizations.get(organization)
    if (known?.uid !== organizationUid) return roleArn
    const facts = await readAccountFacts(this.#context.resources, organization, name)
    if (facts.state !== 'ready' || facts.place.account !== account || facts.place.region !== region)
      return roleArn
    return facts.place.roleArn
  }
}

async function unlessGone<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}
