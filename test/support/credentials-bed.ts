/** The registry credentials of the REST server on a store and accounts in memory; time advances while an answer is awaited. */

import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind, secretsSettingsResource } from '../../src/apis/secrets-settings.ts'
import { AccountIdentity } from '../../src/credentials/accounts/identity.ts'
import { isOwnedBy } from '../../src/credentials/aws/parameter-tags.ts'
import { CloudError } from '../../src/credentials/cloud.ts'
import { ApiError, type PatchOptions } from '../../src/kube/client.ts'
import type { Logger } from '../../src/lib/log.ts'
import type { CredentialMetrics } from '../../src/lib/metrics.ts'
import { SecretText } from '../../src/lib/redact.ts'
import { CredentialDirectory, type CredentialDraft } from '../../src/server/credential-resource.ts'
import { CredentialService } from '../../src/server/credentials.ts'
import { FakeClock, settle } from './fake-clock.ts'
import { FakeParameters, type HeldParameter } from './fake-parameters.ts'
import { Replica, SharedLog } from './key-replicas.ts'
import { MemoryStore } from './memory-store.ts'
import { Steps } from './steps.ts'

export const ACME = 'acme'
export const ROLE = 'arn:aws:iam::222222222222:role/davit'
export const LOCATION = '222222222222/eu-west-1'
const KEY = new Uint8Array(32).fill(7)
/** Longer than a retry waits for a first request that may be dead. */
const TURN_MS = 100
const MOST_TURNS = 600

export function token(more: Partial<CredentialDraft> = {}): CredentialDraft {
  const secret = new SecretText('s3cr3t-of-the-bot')
  return { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot', secret, ...more }
}

export function ecr(more: Partial<CredentialDraft> = {}): CredentialDraft {
  const registry = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
  return { type: 'ecr', label: 'Our images', registry, ...more }
}

export class CredentialsBed {
  readonly clock = new FakeClock()
  readonly store = new MemoryStore(() => this.clock.now())
  readonly cloud = new FakeParameters(() => this.clock.now())
  readonly logged: unknown[] = []
  log: Logger
  readonly removals: string[] = []
  metrics: CredentialMetrics = {
    secretStored: () => undefined,
    parameterRemoved: (outcome) => void this.removals.push(outcome),
  }
  readonly identity = new AccountIdentity(KEY, '/davit')
  readonly #log = new SharedLog()
  readonly #replicas: Replica[] = []
  /** UID of the namespace. */
  #uid = 'uid-of-acme'
  readonly #maxCredentials: number
  /** Decides the error of a patch by the REST server, which then has no effect. */
  refusePatch: (patch: object, how?: PatchOptions) => ApiError | undefined = () => undefined
  /** Called after each patch by the REST server. */
  onPatch: () => void = () => undefined
  /** The reason why the watch may be incomplete. */
  behind: string | undefined

  constructor(maxCredentials = 500) {
    this.#maxCredentials = maxCredentials
    const note = (_event: string, message: string, fields?: unknown) => void this.logged.push(message, fields)
    this.log = { info: note, warn: note, error: note }
  }

  /** A process of the REST server. @param steps through which its calls go */
  server(steps = new Steps()): CredentialService {
    const replica = new Replica(
      this.#log,
      this.clock,
      { organization: 10_000, all: 10_000 },
      this.#replicas.length,
    )
    this.#replicas.push(replica.read())
    const directory = new CredentialDirectory()
    for (const credential of this.credentials()) directory.apply(credential)
    return new CredentialService({
      resources: steps.around(this.#watched(), () => new ApiError('Unavailable', 'no answer')),
      namespace: 'davit-system',
      directory,
      behind: () => this.behind,
      organizations: {
        get: (name) => (name === ACME ? { name, uid: this.#uid, ownerEmails: [] } : undefined),
      },
      identity: this.identity,
      parameters: steps.around(
        this.cloud,
        () => new CloudError('retry', 'Unreachable', 'no answer', { operation: 'ssm:any', unsure: true }),
      ),
      keys: replica.keys,
      maxCredentials: this.#maxCredentials,
      clock: this.clock,
      random: { fraction: () => 0.5, bytes: (count) => crypto.getRandomValues(new Uint8Array(count)) },
      log: this.log,
      metrics: this.metrics,
    })
  }

  #watched(): MemoryStore {
    const patch: MemoryStore['patch'] = async (type, ref, change, how) => {
      const refusal = this.refusePatch(change, how)
      if (refusal) throw refusal
      const patched = await this.store.patch(type, ref, change, how)
      this.onPatch()
      return patched
    }
    return new Proxy(this.store, {
      get: (store, name) => {
        const member = Reflect.get(store, name, store) as unknown
        if (name === 'patch') return patch
        return typeof member === 'function' ? member.bind(store) : member
      },
    })
  }

  /** Returns or throws the result, while time advances and the log is delivered. `died` if its process ends first. */
  async answer<T>(answer: Promise<T>, steps?: Steps): Promise<T> {
    let isOver = false
    const end = () => {
      isOver = true
    }
    answer.then(end, end)
    steps?.died.then(end, end)
    for (let turn = 0; turn < MOST_TURNS && !isOver; turn += 1) {
      await settle(1)
      this.show()
      if (turn > 10 && !isOver) await this.clock.elapse(TURN_MS)
    }
    if (!isOver) throw new Error('there is no answer')
    return steps ? ((await Promise.race([answer, steps.died])) as T) : await answer
  }

  /** Deletes the namespace and creates one of the same name, which has no objects. */
  async recreateNamespace(): Promise<void> {
    this.#uid = `${this.#uid}-recreated`
    for (const type of [registryCredentials, secretsSettingsResource])
      for (const { metadata } of this.store.all(type))
        await this.store.delete(type, { namespace: ACME, name: metadata.name })
    for (const replica of this.#replicas) replica.organize(ACME, this.#uid)
  }

  /** Delivers the log to its watches. */
  show(): void {
    for (const replica of this.#replicas) replica.show()
  }

  /** Creates or changes the settings of a connected account like the controller does. */
  async connect(spec: Record<string, unknown> = {}, status: Record<string, unknown> = {}): Promise<void> {
    const ref = { namespace: ACME, name: 'default' }
    const wanted = { provider: 'aws', region: 'eu-west-1', roleArn: ROLE, ...spec }
    const { kind } = secretsSettingsKind
    if (this.store.all(secretsSettingsResource).length === 0)
      await this.store.create(secretsSettingsResource, { kind, metadata: ref, spec: wanted })
    else await this.store.patch(secretsSettingsResource, ref, { spec: wanted })
    const { provider: _not, ...connected } = wanted
    const now = {
      observedGeneration: 1,
      connected,
      conditions: [conditionOf('True', 'Connected')],
      ...status,
    }
    await this.store.patch(secretsSettingsResource, ref, { status: now }, { subresource: 'status' })
  }

  credentials(): RegistryCredential[] {
    return this.store.all(registryCredentials).map((raw) => registryCredential.parse(raw))
  }

  /** Whether the garbage sweep would recognize the parameter as its own. */
  isOurs({ tags }: HeldParameter): boolean {
    return isOwnedBy(tags, this.identity.ownerOf(this.#uid))
  }

  async make(draft = token()): Promise<{ organization: string; credentialId: string }> {
    const { credential } = await this.answer(this.server().create(ACME, draft, {}))
    return { organization: ACME, credentialId: credential.id }
  }
}

export function conditionOf(status: 'True' | 'False' | 'Unknown', reason: string, message = 'So it is.') {
  const lastTransitionTime = '2026-01-31T12:00:00.000Z'
  return { type: 'Ready', status, reason, message, observedGeneration: 1, lastTransitionTime }
}
