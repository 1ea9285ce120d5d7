/** Bakes that fail against real registries of every kind: their results, and the proof that nothing is left of them. */

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type DebianRegistry, startDebianRegistry } from '../../../playground/bakes/debian-registry.ts'
import { type Image, makeImage, makeIndex } from '../../../playground/bakes/images.ts'
import type { BakeOrder, OrderedCredential } from '../../../src/apis/bake.ts'
import type { Role } from '../../../test-support/aws/account.ts'
import type { Front } from '../registry/front.ts'
import { startTestRegistry, type TestRegistry } from '../registry/test-registry.ts'
import { type BakeBed, BOX_POLICY, startBakeBed } from './bake-bed.ts'
import { orderOf } from './bake-order.ts'
import { type BakeEnd, BakePod } from './bake-process.ts'
import { leaksIn, leaksInFolder } from './canary.ts'

const SECRET = 'canary-of-the-failures:1'
const USER = 'bot'
/** This user may log in but gets no permissions: some token services treat an expired password this way. */
const ENDED = 'ended'
const ACCOUNTS = {
  [USER]: { password: SECRET, pulls: ['acme/api', 'acme/large'] },
  [ENDED]: { password: SECRET, pulls: ['*'], expired: true },
}

type Parameter = NonNullable<OrderedCredential['parameter']>

type Registries = { basic: TestRegistry; bearer: TestRegistry; expired: TestRegistry }

export type Given = {
  registry?: TestRegistry
  host?: string
  image?: string
  credential?: Partial<OrderedCredential> | undefined
  /** Authority that the bake trusts; absent: the registry's. */
  ca?: string
  order?: Partial<BakeOrder>
  /** A command that wraps the bake. */
  within?: readonly string[]
}

const ARM = { layers: ['arm'], architecture: 'arm64' }

export class FailureBed {
  /** The pod of the current test. */
  pod = new BakePod()
  readonly bed: BakeBed
  readonly registries: Registries
  /** Without TLS. */
  readonly plain: DebianRegistry
  readonly parameters: { good: Parameter; wrong: Parameter }
  readonly #trust: Role['trust']
  readonly #challenges: readonly (readonly [TestRegistry, Front['challenge']])[]

  private constructor(
    bed: BakeBed,
    registries: Registries,
    plain: DebianRegistry,
    parameters: FailureBed['parameters'],
  ) {
    this.bed = bed
    this.registries = registries
    this.plain = plain
    this.parameters = parameters
    this.#trust = bed.role.trust
    this.#challenges = Object.values(registries).map((one) => [one, one.front.challenge])
  }

  static async start(): Promise<FailureBed> {
    const bed = await startBakeBed()
    const good = await bed.store('rc_api', SECRET)
    const wrong = await bed.store('rc_wrong', `${SECRET}-wrong`)
    const [basic, bearer, expired, plain] = await Promise.all([
      startTestRegistry({ auth: 'basic', accounts: ACCOUNTS }),
      startTestRegistry({ auth: 'bearer', accounts: ACCOUNTS }),
      startTestRegistry({ auth: 'none', days: -1 }),
      startDebianRegistry(),
    ])
    for (const registry of [basic, bearer]) {
      await registry.push('acme/api', '1.0', makeImage({ layers: ['base', 'api'] }))
      await registry.push('acme/large', '1.0', makeImage({ layers: ['base', 6_000_000] }))
      await registry.push('acme/api', 'arm', makeIndex([makeImage(ARM)]))
      await registry.push('acme/api', 'arm-alone', makeImage(ARM))
      await registry.push('acme/api', 'arm-docker', makeImage({ ...ARM, docker: true }))
      await registry.push('acme/api', 'mislabeled', makeIndex([mislabeled()]))
      await registry.push('acme/other', '1.0', makeImage({ layers: ['base', 'other'] }))
    }
    return new FailureBed(bed, { basic, bearer, expired }, plain, { good, wrong })
  }

  async stop(): Promise<void> {
    this.pod.remove()
    for (const part of [...Object.values(this.registries), this.plain, this.bed]) await part.stop()
  }

  /** Removes all faults after each test, and creates a new pod. */
  renew(): void {
    for (const [{ front, tokens }, challenge] of this.#challenges) {
      Object.assign(front, { trouble: undefined, challenge, bytesPerSecond: undefined })
      front.requests.length = 0
      Object.assign(tokens, { trouble: undefined, grantsNothing: false })
    }
    const { account, role } = this.bed
    account.changeRole(role, { policies: { box: BOX_POLICY } })
    role.trust = this.#trust
    this.pod.remove()
    this.pod = new BakePod()
  }

  async bake(given: Given): Promise<BakeEnd> {
    const { registry = this.registries.basic, ca = registry.ca, order, within } = given
    const environment = this.bed.environment(ca)
    return await this.pod.start(orderOf([this.#service(given)], this.pod.output, order), environment, within)
      .ended
  }

  /** Runs a failing bake, and expects that no partial output and no secret is left. */
  async failure(given: Given) {
    const { code, result, log } = await this.bake(given)
    expect({ code, state: result?.state }, log).toEqual({ code: 1, state: 'failed' })
    const { output, memory, folder } = this.pod
    const bakes = join(output, '.davit/shop')
    expect(existsSync(bakes) ? readdirSync(bakes) : []).toEqual([])
    expect(existsSync(join(output, 'shop'))).toBe(false)
    expect(readdirSync(memory)).toEqual([])
    expect(leaksIn(log + JSON.stringify(result), SECRET, USER)).toEqual([])
    expect(leaksInFolder(folder, SECRET, USER)).toEqual([])
    if (!result?.failure) throw new Error('it does not say why')
    return { ...result.failure, verified: result.services[0]?.verified }
  }

  #service({
    registry = this.registries.basic,
    host = registry.host,
    image = 'acme/api:1.0',
    ...given
  }: Given) {
    const own = {
      id: 'rc_api',
      type: 'token' as const,
      registry: host,
      username: USER,
      parameter: this.parameters.good,
    }
    const credential =
      'credential' in given && !given.credential ? {} : { credential: { ...own, ...given.credential } }
    return { name: 'api', image: `${host}/${image}`, ...credential } satisfies BakeOrder['services'][number]
  }
}

/** Makes the registry answer some requests this way. @param only part of their path */
export function refuse(
  registry: TestRegistry,
  { status, errors, only = '/manifests/' }: { status: number; errors: unknown; only?: string },
): void {
  registry.front.trouble = (request, response) => {
    if (!request.url?.includes(only)) return false
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
    return true
  }
}

/** Its entry in the index names another platform than its config. */
function mislabeled(): Image {
  return { ...makeImage(ARM), platform: { os: 'linux', architecture: 'amd64' } }
}
