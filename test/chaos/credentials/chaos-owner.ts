/**
 * An owner with kubectl who creates, rotates and deletes credentials, moves to another account, and records what was asked for.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { secrets } from '../../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { REGISTRY_SECRET_TYPE, registryCredentials } from '../../../src/apis/registry-credential.ts'
import { secretsSettingsResource } from '../../../src/apis/secrets-settings.ts'
import { isApiError } from '../../../src/kube/client.ts'
import type { KubernetesClient } from '../../../src/kube/resources.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { eventually, patiently } from './patience.ts'
import { applySettings, type ChaosOrganization } from './setting.ts'

export type Wanted = {
  /** The last value in an input Secret. */
  value: string
  retained: boolean
  /** Whether the account was changed since then: a secret that is not retained does not survive that. */
  mayBeLost: boolean
}

export type ChaosOwnerOptions = {
  api: KubernetesClient
  organization: ChaosOrganization
  random: SeededRandom
}

/** A deleted object must be gone within this time, although most of the time no controller runs. */
const GONE_LIMIT_MS = 600_000
const MOST_CREDENTIALS = 12
const RETAINED_SHARE = 0.3

export class ChaosOwner {
  readonly wanted = new Map<string, Wanted>()
  /** Deleted objects that are still there. */
  readonly wrong: string[] = []
  readonly counts = new Map<string, number>()
  readonly organization: string
  readonly #options: ChaosOwnerOptions
  readonly #acts = [
    { name: 'create', share: 0.32, act: () => this.#create() },
    { name: 'rotate', share: 0.38, act: () => this.#rotate() },
    { name: 'delete', share: 0.14, act: async () => void (await this.#delete()) },
    { name: 'delete and make again', share: 0.06, act: () => this.#makeAgain() },
    { name: 'move', share: 0.07, act: () => this.#move() },
    { name: 'delete the settings', share: 1, act: () => this.#connectAgain() },
  ]
  #made = 0
  #values = 0
  #isEnded = false
  #running: Promise<void> = Promise.resolve()

  constructor(options: ChaosOwnerOptions) {
    this.#options = options
    this.organization = options.organization.name
  }

  start(): void {
    this.#running = this.#run()
  }

  /** Resolves after the last action. */
  async stop(): Promise<void> {
    this.#isEnded = true
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isEnded) {
      await sleep(this.#options.random.between(50, 700))
      await this.#act()
    }
  }

  async #act(): Promise<void> {
    let chance = this.#options.random.fraction()
    for (const { name, share, act } of this.#acts) {
      chance -= share
      if (chance >= 0) continue
      this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
      return await act()
    }
  }

  async #create(): Promise<void> {
    if (this.wanted.size >= MOST_CREDENTIALS) return void (await this.#delete())
    this.#made += 1
    await this.#make(`c-${this.#made}`)
  }

  async #make(name: string): Promise<void> {
    const { random } = this.#options
    const wanted = { value: this.#value(name), retained: random.chance(RETAINED_SHARE), mayBeLost: false }
    this.wanted.set(name, wanted)
    const steps = [() => this.#handOver(name, wanted), () => this.#makeResource(name)]
    for (const step of random.chance(0.3) ? steps.reverse() : steps) await step()
  }

  async #makeResource(name: string): Promise<void> {
    const { api } = this.#options
    const metadata = { namespace: this.organization, name }
    const spec = { type: 'token', label: name, registry: 'ghcr.io', username: 'bot', secretRef: { name } }
    const object = { apiVersion: API_VERSION, kind: 'RegistryCredential', metadata, spec }
    await patiently(() => api.create(registryCredentials, object), 'AlreadyExists')
  }

  async #rotate(): Promise<void> {
    const name = this.#any()
    const wanted = name === undefined ? undefined : this.wanted.get(name)
    if (name === undefined || !wanted) return
    Object.assign(wanted, { value: this.#value(name), mayBeLost: false })
    await this.#handOver(name, wanted)
  }

  /** Changes the existing object; the controller may delete it meanwhile. */
  async #handOver(name: string, { value, retained }: Wanted): Promise<void> {
    const { api } = this.#options
    const ref = { namespace: this.organization, name }
    const data = { secret: Buffer.from(value).toString('base64') }
    const annotations = retained ? { 'davit.dev/retain': 'true' } : {}
    const object = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { ...ref, annotations },
      type: REGISTRY_SECRET_TYPE,
      data,
    }
    for (;;) {
      if (await patiently(() => api.create(secrets, object), 'AlreadyExists')) return
      if (await patiently(() => api.patch(secrets, ref, { data }), 'NotFound')) return
    }
  }

  async #delete(): Promise<string | undefined> {
    const name = this.#any()
    if (name === undefined) return undefined
    const { api } = this.#options
    const ref = { namespace: this.organization, name }
    this.wanted.delete(name)
    await patiently(() => api.delete(registryCredentials, ref), 'NotFound')
    await patiently(() => api.delete(secrets, ref), 'NotFound')
    return name
  }

  async #makeAgain(): Promise<void> {
    const name = await this.#delete()
    if (name !== undefined && (await this.#isGone(registryCredentials, name))) await this.#make(name)
  }

  async #move(): Promise<void> {
    const { api, organization, random } = this.#options
    const location = organization.places[Math.floor(random.fraction() * organization.places.length)]
    this.#risk()
    if (location) await applySettings(api, this.organization, location)
    this.#risk()
  }

  async #connectAgain(): Promise<void> {
    const { api } = this.#options
    this.#risk()
    await patiently(
      () => api.delete(secretsSettingsResource, { namespace: this.organization, name: 'default' }),
      'NotFound',
    )
    await this.#isGone(secretsSettingsResource, 'default')
    await this.#move()
  }

  #risk(): void {
    for (const wanted of this.wanted.values()) wanted.mayBeLost = !wanted.retained
  }

  async #isGone(type: typeof registryCredentials, name: string): Promise<boolean> {
    const { api } = this.#options
    const ref = { namespace: this.organization, name }
    const gone = await eventually(async () => {
      try {
        await api.get(type, ref)
        return false
      } catch (error) {
        if (isApiError(error, 'NotFound')) return true
        throw error
      }
    }, GONE_LIMIT_MS)
    if (!gone) this.wrong.push(`${this.organization}/${name} was deleted and is held`)
    return gone
  }

  #any(): string | undefined {
    const names = [...this.wanted.keys()]
    return names[Math.floor(this.#options.random.fraction() * names.length)]
  }

  #value(name: string): string {
    this.#values += 1
    return `value ${this.#values} of ${name}`
  }
}
