/** Finds out what a role can do in an organization's account, and when to try that and list the account again. */
import type { SecretsSettings } from '../../apis/secrets-settings.ts'
import { SecretText } from '../../lib/redact.ts'
import { type Clock, exponentialMs, type Random } from '../../lib/time.ts'
import { parseRoleArn, probeName } from '../aws/names.ts'
import { isOwnedBy } from '../aws/parameter-tags.ts'
import {
  type AccountProbes,
  type CallLimits,
  type CloudAccess,
  type CloudResult,
  isCloudError,
  type ParameterListing,
  type ParameterStore,
} from '../cloud.ts'
import { type AccountIdentity, tryCloud } from './identity.ts'
import type { ConnectionAssessment, ProbeResults } from './plan.ts'

export type CheckScheduleOptions = {
  clock: Clock
  random: Random
  /** Between two checks of what the role can do, and two listings of the account. */
  checkEveryMs: number
  listEveryMs: number
}

/** `checkAt` and `listAt` are monotonic: the clock may be set. */
type Times = { uid: string; generation: number; failures: number; checkAt: number; listAt: number }

/** Soon enough for an owner who fixes a policy and waits for the result, without asking AWS the same for ever. */
const RETRY = { firstMs: 15_000, longestMs: 600_000 }
const LEAST_MS = 1000
const NO_ANSWERS: ReadonlySet<string> = new Set(['NotChecked', 'Connecting'])

/** When an account is checked and listed next: soon while something is wrong, rarely while all is well, never all at once. */
export class CheckSchedule {
  readonly #options: CheckScheduleOptions
  readonly #times = new Map<string, Times>()

  constructor(options: CheckScheduleOptions) {
    this.#options = options
  }

  /** Also if the status has no result: the namespace may have been no organization for a while. */
  isCheckDue(settings: SecretsSettings): boolean {
    return !hasResult(settings) || this.#of(settings).checkAt <= this.#options.clock.monotonic()
  }

  isListingDue(settings: SecretsSettings): boolean {
    return this.#of(settings).listAt <= this.#options.clock.monotonic()
  }

  checked(settings: SecretsSettings, { ready }: ConnectionAssessment): void {
    const times = this.#of(settings)
    times.failures = ready ? 0 : times.failures + 1
    const retryMs = exponentialMs(times.failures, RETRY)
    times.checkAt = this.#after(ready ? this.#options.checkEveryMs : retryMs)
  }

  listed(settings: SecretsSettings): void {
    this.#of(settings).listAt = this.#after(this.#options.listEveryMs)
  }

  /** Without a role nothing is checked, without a connection nothing is listed. Undefined: nothing to do until a change. */
  nextMs(settings: SecretsSettings, { check, list }: { check: boolean; list: boolean }): number | undefined {
    const { checkAt, listAt } = this.#of(settings)
    const times = [...(check ? [checkAt] : []), ...(list ? [listAt] : [])]
    if (times.length === 0) return undefined
    return Math.max(LEAST_MS, Math.min(...times) - this.#options.clock.monotonic())
  }

  forget(organization: string): void {
    this.#times.delete(organization)
  }

  #of({ metadata, status }: SecretsSettings): Times {
    const { namespace = '', uid, generation = 1 } = metadata
    const held = this.#times.get(namespace)
    if (held?.uid === uid && held.generation === generation) return held
    const { clock, checkEveryMs } = this.#options
    const now = clock.monotonic()
    const isReady = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
    const isKnown = isReady && status?.observedGeneration === generation
    const ageMs = Math.max(0, clock.now() - (Date.parse(status?.checkedAt ?? '') || 0))
    const times = {
      uid,
      generation,
      failures: 0,
      checkAt: isKnown ? now + Math.max(0, checkEveryMs - ageMs) : now,
      listAt: held?.uid === uid ? held.listAt : now,
    }
    this.#times.set(namespace, times)
    return times
  }

  #after(ms: number): number {
    const { clock, random } = this.#options
    return clock.monotonic() + ms * (0.9 + 0.2 * random.fraction())
  }
}

/** A role that accepts other external ids has a result, although nothing else was checked. */
function hasResult({ status }: SecretsSettings): boolean {
  const first = status?.conditions?.filter(
    ({ type }) => type === 'Reachable' || type === 'ExternalIdEnforced',
  )
  return first?.some(({ reason }) => !NO_ANSWERS.has(reason)) ?? false
}

export type ProbeOptions = {
  cloud: ParameterStore & ParameterListing & AccountProbes
  accounts: Pick<AccountIdentity, 'ownerOf' | 'tagsOf'>
  prefix: string
  random: Random
}

const VALUE_BYTES = 16
const DESCRIPTION =
  'Test parameter that Davit uses to check whether it can write here. It contains no secret.'

/** In an account that many organizations share, all of them may be ahead of this one. */
const TURNS = { turnMs: 120_000 }

/**
 * Asks for the role with a wrong external id, writes a parameter without a secret, and tries to read it. Stops at the first failed
 * prerequisite: nothing is written into an account whose role may have been named by someone else.
 */
export async function probeAccount(
  options: ProbeOptions,
  access: CloudAccess,
  given: CallLimits = {},
): Promise<ProbeResults> {
  const { cloud, prefix } = options
  const limits = { ...TURNS, ...given }
  const identify = await tryCloud(() => cloud.identify(access, limits))
  if (identify.failure || identify.value.account !== parseRoleArn(access.roleArn)?.account)
    return { identify }
  const otherId = await tryCloud(() => cloud.refusesOtherId(access, limits))
  if (!otherId.value?.refused) return { identify, otherId }
  const name = probeName({ prefix, organization: access.organization })
  const put = await putProbe(options, access, name, limits)
  if (put.failure) return { identify, otherId, put }
  const tags = await tryCloud(async () => void (await cloud.tagsOf(access, name, limits)))
  // Nothing is below the probe, so this is one page however much the account holds.
  const list = await tryCloud(async () => void (await cloud.list(access, { prefix: name, limit: 1 }, limits)))
  const readable = await tryCloud(() => cloud.readable(access, name, limits))
  // If it stays, the next probe overwrites it and garbage collection removes it.
  const remove = await tryCloud(async () => void (await cloud.remove(access, name, limits)))
  return { identify, otherId, put, tags, list, readable, remove }
}

async function putProbe(
  options: ProbeOptions,
  access: CloudAccess,
  name: string,
  limits: CallLimits,
): Promise<CloudResult<true>> {
  const { cloud, accounts, random } = options
  const value = new SecretText(Buffer.from(random.bytes(VALUE_BYTES)).toString('hex'))
  const tags = accounts.tagsOf(access)
  return await tryCloud(async () => {
    try {
      await cloud.create(access, { name, value, description: DESCRIPTION, tags }, limits)
    } catch (error) {
      if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
      const owner = accounts.ownerOf(access.organizationUid)
      if (!isOwnedBy(await cloud.tagsOf(access, name, limits), owner)) throw error
      await cloud.replace(access, name, value, limits)
    }
    return true as const
  })
}
