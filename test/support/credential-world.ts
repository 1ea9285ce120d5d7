/**
 * A credential, its input Secret and its possible cloud accounts, as the credential plan sees them. It executes the steps of the
 * plan, records the effects, and can be stopped between the cloud and the status.
 */

import type { StoredParameter } from '../../src/apis/registry-credential.ts'
import type { CloudFailure } from '../../src/credentials/cloud.ts'
import type { InputSecretFacts, InputSecretRef } from '../../src/credentials/controller/input-secret-plan.ts'
import {
  type AccountFacts,
  type CredentialAction,
  type CredentialFacts,
  type FoundParameter,
  type ListingFacts,
  NO_RECONCILE_FACTS,
  nextAction,
  type ParameterLocation,
  type ReconcileFacts,
} from '../../src/credentials/controller/plan.ts'

export type Entry = { owner: 'ours' | 'not-ours'; value: string; version: number }
export type SecretObject = {
  uid: string
  resourceVersion: string
  value: string
  retained: boolean
  owner?: string
}

/** The answer of a call to the cloud; undefined: success. */
export type Answer = CloudFailure | undefined

export const A = '111111111111'
export const B = '222222222222'
export const SECRET: SecretObject = { uid: 'u-1', resourceVersion: '7', value: 'v-1', retained: false }
export const RETRY: CloudFailure = { remedy: 'retry', code: 'ThrottlingException', message: 'slow' }
export const DENIED: CloudFailure = { remedy: 'permissions', code: 'AccessDeniedException', message: 'no' }
export const SPEC: CloudFailure = { remedy: 'spec', code: 'ValidationException', message: 'no such thing' }
export const GONE: CloudFailure = { remedy: 'gone', code: 'ParameterNotFound', message: 'not there' }

const ROLE = 'arn:aws:iam::123456789012:role/davit'

export function locationOf(account: string): ParameterLocation {
  return { name: '/davit/acme/rc_ghcr', region: 'eu-west-1', account, roleArn: ROLE }
}

export function storedAt(account: string, version = 1): StoredParameter {
  return { name: '/davit/acme/rc_ghcr', region: 'eu-west-1', account, roleArn: ROLE, version }
}

/** The account name stands for its default region. */
function keyOf({ account, region }: { account: string; region: string }): string {
  return region === 'eu-west-1' ? account : `${account}/${region}`
}

const MOST_STEPS = 20

export class CredentialWorld {
  now = 1_000_000
  hasFinalizer = false
  gone = false
  deletedAt: number | undefined
  account: AccountFacts = { state: 'ready', location: locationOf(A) }
  secret: SecretObject | undefined
  stored: StoredParameter | undefined
  storedInputSecret: InputSecretRef | undefined
  moved = false
  ownName = false
  writtenAt = 0
  sharedWith: string | undefined
  listing: ListingFacts = { state: 'unknown' }
  readonly cloud = new Map<string, Entry>()
  readonly failedDeletions = new Set<string>()
  readonly steps: string[] = []
  /** Violations of the rules. */
  readonly wrongs: string[] = []
  #pass: ReconcileFacts = NO_RECONCILE_FACTS

  /**
   * Runs one pass, up to its last step.
   * @param answers of the calls to the cloud, in turn; then they succeed
   * @param stopAfter number of steps; the status of the last one is not written
   */
  run(answers: readonly Answer[] = [], stopAfter = Number.POSITIVE_INFINITY): CredentialAction {
    this.#pass = NO_RECONCILE_FACTS
    const queue = [...answers]
    for (let count = 1; ; count += 1) {
      if (this.deletedAt !== undefined && !this.hasFinalizer) this.gone = true
      const step = nextAction(this.facts())
      this.steps.push(step.step)
      if (this.gone || step.step === 'nothing' || step.step === 'refuse' || step.step === 'wait') return step
      if (count > MOST_STEPS) {
        this.wrongs.push(`no end: ${this.steps.slice(-6).join(', ')}`)
        return step
      }
      this.#check(step)
      const stops = count >= stopAfter
      this.#take(step, queue, stops)
      if (stops) return step
    }
  }

  facts(): CredentialFacts {
    return {
      now: this.now,
      type: 'token',
      createdAt: 0,
      writtenAt: this.writtenAt,
      sharedWith: this.sharedWith,
      deletedAt: this.deletedAt,
      hasFinalizer: this.hasFinalizer,
      generatedName: this.ownName,
      account: this.account,
      secretName: 'ghcr-handover',
      inputSecret: this.#inputSecret(),
      stored: this.stored,
      storedInputSecret: this.storedInputSecret,
      hasPendingFields: false,
      moved: this.moved,
      listing: this.listing,
      pass: this.#pass,
    }
  }

  /** Parameters of this organization that no credential refers to. */
  garbage(): string[] {
    const known = new Set([...this.failedDeletions, ...(this.stored ? [keyOf(this.stored)] : [])])
    return [...this.cloud].flatMap(([key, { owner }]) => (owner === 'ours' && !known.has(key) ? [key] : []))
  }

  #inputSecret(): InputSecretFacts {
    if (!this.secret) return { state: 'missing' }
    const { uid, resourceVersion, retained, value, owner } = this.secret
    const markAt = (of: { uid: string; resourceVersion: string }) =>
      `mark of ${value} in ${of.uid} at ${of.resourceVersion}`
    const { storedInputSecret: stored } = this
    const isSameValue = stored !== undefined && stored.mark === markAt(stored)
    const mark = markAt({ uid, resourceVersion })
    const createdAt = this.now
    return { state: 'usable', uid, resourceVersion, createdAt, retained, mark, isSameValue, owner }
  }

  /** Checks the rules that hold for every step, whatever the answers. */
  #check(step: CredentialAction): void {
    const { owner, removed, failedDeletionRecorded } = this.#pass
    const wrong = (what: string) => this.wrongs.push(`${step.step}: ${what}`)
    if (step.step === 'drop-finalizer' || step.step === 'forget') {
      const ended = removed || failedDeletionRecorded || owner === 'absent'
      if (this.stored && !ended) wrong('a parameter is recorded, and neither removed nor an orphan')
    }
    if ((step.step === 'remove' || step.step === 'put-version') && owner !== 'ours')
      wrong('nobody looked whose it is')
    if (step.step === 'delete-input-secret') this.#checkInputSecret(step.inputSecret, wrong)
  }

  #checkInputSecret(
    inputSecret: { uid: string; resourceVersion: string },
    wrong: (what: string) => void,
  ): void {
    const entry = this.stored && this.cloud.get(keyOf(this.stored))
    if (this.secret?.retained) wrong('it is retained')
    if (this.secret?.owner !== undefined) wrong('its controller would create it again')
    if (entry?.value !== this.secret?.value && !this.#meddled) wrong('its value is not stored')
    if (inputSecret.uid !== this.secret?.uid) wrong('it is another object')
    if (inputSecret.resourceVersion !== this.secret?.resourceVersion) wrong('it is another version')
  }

  /** Whether the parameter was changed from outside, which is not visible yet. */
  #meddled = false
  meddle(account: string, entry: Entry | undefined): void {
    this.#meddled = true
    if (entry) this.cloud.set(account, entry)
    else this.cloud.delete(account)
  }

  #take(step: CredentialAction, answers: Answer[], stops: boolean): void {
    switch (step.step) {
      case 'add-finalizer':
        this.hasFinalizer = true
        return
      case 'drop-finalizer':
        this.hasFinalizer = false
        return
      case 'forget':
        if (stops) return
        this.stored = undefined
        this.storedInputSecret = undefined
        this.moved = true
        this.listing = { state: 'unrecorded' }
        this.#pass = NO_RECONCILE_FACTS
        return
      case 'list':
        this.#call(answers, () => {
          this.listing = { state: 'unrecorded', found: this.#found() }
        })
        return
      case 'record-failed-deletion':
        this.failedDeletions.add(keyOf(step.at))
        this.#pass = { ...this.#pass, failedDeletionRecorded: true }
        return
      case 'delete-input-secret':
        this.secret = undefined
        return
      case 'record-input-secret':
        if (!stops) this.storedInputSecret = step.inputSecret
        return
      case 'adopt':
        if (stops) return
        this.#record(step.at, step.version)
        return
      default:
        this.#callCloud(step, answers, stops)
    }
  }

  #callCloud(step: CredentialAction, answers: Answer[], stops: boolean): void {
    if (step.step === 'look') {
      this.#call(answers, () => {
        this.#pass = { ...this.#pass, owner: this.cloud.get(keyOf(step.at))?.owner ?? 'absent' }
      })
    } else if (step.step === 'remove') {
      // Written before the call, like that of a put.
      if (this.deletedAt === undefined) this.storedInputSecret = undefined
      this.#call(answers, () => {
        this.cloud.delete(keyOf(step.at))
        this.#pass = { ...this.#pass, removed: true }
      })
    } else if (step.step === 'put-new' || step.step === 'put-version') {
      // Written before the call, which may have an effect without an answer.
      this.storedInputSecret = undefined
      this.#call(answers, () => this.#put(step, stops))
    }
  }

  #put(step: Extract<CredentialAction, { inputSecret: unknown; at: unknown }>, stops: boolean): void {
    const before = this.cloud.get(keyOf(step.at))
    if (step.step === 'put-new' && before) {
      const failure = { remedy: 'spec', code: 'ParameterAlreadyExists', message: '' } as const
      this.#pass = { ...this.#pass, failure }
      return
    }
    const version = (before?.version ?? 0) + 1
    this.cloud.set(keyOf(step.at), { owner: 'ours', value: this.secret?.value ?? '', version })
    this.#meddled = false
    if (stops) return
    this.storedInputSecret = step.inputSecret
    this.#record(step.at, version)
  }

  #record(at: ParameterLocation, version: number): void {
    this.stored = { ...storedAt(at.account, version), region: at.region }
    this.moved = false
    this.listing = { state: 'unknown' }
    this.#pass = NO_RECONCILE_FACTS
  }

  #call(answers: Answer[], act: () => void): void {
    const failure = answers.shift()
    this.#pass = { ...this.#pass, failure }
    if (!failure) act()
  }

  #found(): FoundParameter | undefined {
    const entry = this.cloud.get(this.#key())
    if (!entry) return undefined
    const isOwnSession = entry.owner === 'ours'
    return { version: entry.version, type: 'SecureString', by: entry.owner, isOwnSession }
  }

  #key(): string {
    const location = this.account.state === 'missing' ? undefined : this.account.location
    return location ? keyOf(location) : ''
  }
}

/** A world in which only the name and the finalizer exist. */
export function world(change: Partial<CredentialWorld> = {}): CredentialWorld {
  return Object.assign(new CredentialWorld(), { hasFinalizer: true }, change)
}

/** A credential with a stored secret and a deleted input Secret. */
export function storedWorld(change: Partial<CredentialWorld> = {}): CredentialWorld {
  const one = world({
    stored: storedAt(A),
    storedInputSecret: { uid: 'u-1', resourceVersion: '7' },
    ...change,
  })
  one.cloud.set(A, { owner: 'ours', value: 'v-1', version: 1 })
  return one
}
