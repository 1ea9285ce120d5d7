/**
 * Promises about secrets that hold whenever a process ends, and whatever is deleted in which order. Returns a description of each
 * broken one.
 */
import { secrets } from '../../../src/apis/core-kinds.ts'
import type { RegistryCredential } from '../../../src/apis/registry-credential.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import type { Held } from './memory-cloud.ts'
import { type SecretsWorld, TENANT_TYPES } from './secrets-world.ts'

/** Tries continue for a minute, and the last one may be slow. */
export const HELD_LIMIT_MS = 100_000

export class Promises {
  readonly #world: SecretsWorld
  readonly #broken = new Set<string>()
  readonly #foreign = new Map<Map<string, Held>, string>()
  /** The longest time that a finalizer held an object. */
  longestHeldMs = 0

  constructor(world: SecretsWorld) {
    this.#world = world
    world.watchers.push(() => this.#lookForHeld())
    world.onSecretDeleted = (secret) => this.#lookForStored(secret)
  }

  /** Adds parameters of other owners, which must never be touched. */
  plant(account: string, region: string): void {
    const store = this.#world.cloud.store(account, region)
    const held = (tags: Record<string, string>): Held => ({
      versions: [{ value: 'theirs', by: 'somebody', at: 0 }],
      tags,
    })
    const installation = this.#world.process.role.accounts.installation
    store.set('/davit/acme/rc_untagged', held({}))
    store.set(
      '/davit/acme/rc_of-before',
      held({ 'davit.dev/installation': installation, 'davit.dev/organization-uid': 'uid-0' }),
    )
    const uid = this.#world.organizations.get('acme') ?? ''
    store.set(
      '/davit/acme/rc_elsewhere',
      held({ 'davit.dev/installation': 'another', 'davit.dev/organization-uid': uid }),
    )
    store.set('/davit/acme/else', held({}))
    this.#foreign.set(store, JSON.stringify(foreignIn(store)))
  }

  /** The broken promises, when nothing is in progress. */
  broken(): string[] {
    const world = this.#world
    for (const [store, before] of this.#foreign) {
      if (JSON.stringify(foreignIn(store)) !== before) this.#broken.add('parameters of others were touched')
    }
    for (const wrong of world.cloud.wrongs) this.#broken.add(wrong)
    for (const credential of world.credentials()) this.#judge(credential)
    for (const [location, store] of world.cloud.stores)
      for (const [name, held] of store) if (!isForeign(held)) this.#lookForOwner(location, name)
    for (const { level, message, fields } of world.logLines)
      if (level === 'error') this.#broken.add(`an error was logged: ${message} ${describe(fields)}`)
    return [...this.#broken]
  }

  #lookForHeld(): void {
    const now = this.#world.clock.now()
    for (const type of TENANT_TYPES) {
      for (const { metadata } of this.#world.cluster.all(type)) {
        if (typeof metadata.deletionTimestamp !== 'string') continue
        const heldMs = now - Date.parse(metadata.deletionTimestamp)
        this.longestHeldMs = Math.max(this.longestHeldMs, heldMs)
        if (heldMs > HELD_LIMIT_MS)
          this.#broken.add(`${metadata.namespace}/${metadata.name} is held too long`)
      }
    }
  }

  /** An input Secret is deleted only after its value is stored and pinned. */
  #lookForStored({ metadata, data }: RawObject): void {
    const value = Buffer.from((data as { secret: string }).secret, 'base64').toString()
    const owners = this.#world
      .credentials()
      .filter(
        (one) => one.metadata.namespace === metadata.namespace && one.spec.secretRef?.name === metadata.name,
      )
    if (!owners.some((one) => this.#valueOf(one) === value))
      this.#broken.add(`the Secret ${metadata.name} was deleted, and its value is not stored`)
  }

  #judge(credential: RegistryCredential): void {
    const { metadata, spec, status } = credential
    const isReady = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
    if (!isReady) return
    const value = this.#valueOf(credential)
    if (value === undefined) this.#broken.add(`${metadata.name} is Ready without its parameter`)
    const named = this.#world.cluster
      .all(secrets)
      .find(
        (one) => one.metadata.namespace === metadata.namespace && one.metadata.name === spec.secretRef?.name,
      )
    if (!named) return
    const wanted = Buffer.from((named.data as { secret: string }).secret, 'base64').toString()
    if (value !== wanted) this.#broken.add(`${metadata.name} does not have the value of its Secret`)
    const { annotations } = named.metadata as { annotations?: Record<string, string> }
    if (annotations?.['davit.dev/retain'] !== 'true')
      this.#broken.add(`the Secret ${named.metadata.name} is stored and still there`)
  }

  #valueOf({ status }: RegistryCredential): string | undefined {
    const { name = '', account = '', region = '', version = 0 } = status?.parameter ?? {}
    return this.#world.cloud.stores.get(`${account} ${region}`)?.get(name)?.versions[version - 1]?.value
  }

  #lookForOwner(location: string, name: string): void {
    const [account, region] = location.split(' ')
    const isThere = (at: { name: string; account: string; region: string } | undefined) =>
      at?.name === name && at.account === account && at.region === region
    const isNamed = this.#world.credentials().some(({ status }) => isThere(status?.parameter))
    const isKnown = isNamed || this.#world.failedDeletions().some(isThere) || this.#isFound(location, name)
    if (isKnown || this.#isLeftTry(location, name)) return
    this.#broken.add(`${name} in ${location} is nobody's`)
  }

  /**
   * A value without a secret in an account that was never connected: its process ended during the check, and then the spec was
   * changed.
   */
  #isLeftTry(location: string, name: string): boolean {
    const isConnected = this.#world
      .allSettings()
      .some(({ status }) => locationKey(status?.connected) === location)
    return name.endsWith('/rc__probe') && !isConnected
  }

  /**
   * Its process ended between the write and the status, and its Secret is gone: it stays as long as the credential and the
   * account, and is removed with them.
   */
  #isFound(location: string, name: string): boolean {
    const settings = this.#world.allSettings()
    return this.#world.credentials().some(({ metadata, status }) => {
      const connected = settings.find((one) => one.metadata.namespace === metadata.namespace)?.status
        ?.connected
      const isOwn = name === `/davit/${metadata.namespace}/rc_${metadata.name}`
      return isOwn && locationKey(connected) === location && status?.parameter === undefined
    })
  }
}

function locationKey(at: { roleArn: string; region: string } | undefined): string {
  return `${at?.roleArn.split(':')[4]} ${at?.region}`
}

function isForeign({ versions }: Held): boolean {
  return versions[0]?.value === 'theirs'
}

function foreignIn(store: Map<string, Held>): [string, Held][] {
  return [...store].filter(([, held]) => isForeign(held))
}

function describe(fields: unknown): string {
  const { error } = (fields ?? {}) as { error?: Error }
  return error ? `${error.name}: ${error.message}` : JSON.stringify(fields)
}
