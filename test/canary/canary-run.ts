/** A thousand secrets through everything that Davit does with them, while everything goes wrong. */
import { setTimeout as sleep } from 'node:timers/promises'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { troubleAws } from './aws-troubles.ts'
import { KubectlOwner } from './kubectl-owner.ts'
import type { Done } from './rest-owner.ts'
import type { Scene } from './scene.ts'
import { SecretBook } from './secret-book.ts'

export type CanaryOptions = {
  seed: number
  /** Of each way, in each organization; each has two secrets. */
  credentials: number
  /** Rejected ones, by each way. */
  refused: number
  /** How long a process lives at most before one is killed. */
  lifeMs: number
  /** How long the storm lasts beyond what each phase takes, and how long calm may take to bring all in order. */
  stormMs: number
  calmMs: number
  say: (line: string) => void
}

export type CanaryRun = {
  book: SecretBook
  credentials: { kubectl: number; rest: number }
  /** Secrets that were found in the account, each under its credential. */
  stored: { kubectl: number; rest: number }
  /** Of the others: the shape, and the reason that the owner got. */
  missed: string[]
  faults: number
  kills: number
}

type Kept = { organization: string; name: string; secrets: readonly [string, string]; last?: Done }

const AT_A_TIME = 16
const POLL_MS = 250

export async function playCanary(scene: Scene, options: CanaryOptions): Promise<CanaryRun> {
  return await new Play(scene, options).run()
}

class Play {
  readonly #scene: Scene
  readonly #options: CanaryOptions
  readonly #random: SeededRandom
  readonly #book: SecretBook
  readonly #owner: KubectlOwner
  readonly #stored = { kubectl: new Set<string>(), rest: new Set<string>() }
  readonly #missed: string[] = []
  #faults = 0

  constructor(scene: Scene, options: CanaryOptions) {
    this.#scene = scene
    this.#options = options
    this.#random = new SeededRandom(options.seed)
    this.#book = new SecretBook(this.#random.fork())
    this.#owner = new KubectlOwner(scene.davit.api)
  }

  async run(): Promise<CanaryRun> {
    const { rest, roles } = this.#scene
    const over = new AbortController()
    const scraping = roles.scrape(over.signal)
    const handed = this.#plan('kubectl')
    const sent = this.#plan('rest')
    await this.#storm('created', [
      this.#each(handed, (one, i) => this.#handOver(one, 0, i)),
      this.#each(sent, async (one) => {
        one.last = await rest.create(one.organization, one.secrets[0])
        if (one.last.done) one.name = one.last.id.replace(/^rc_/, '')
      }),
      this.#misuse(),
    ])
    await this.#calm(handed, sent, 0)
    await this.#storm('rotated', [
      this.#each(handed, (one, i) => this.#handOver(one, 1, i)),
      this.#each(sent, async (one) => {
        const { organization, name, secrets } = one
        if (name !== '') one.last = await rest.rotate(organization, `rc_${name}`, secrets[1])
      }),
      this.#misuse(),
    ])
    await this.#calm(handed, sent, 1)
    await this.#storm('deleted', [
      this.#each(handed, ({ organization, name }) => this.#owner.remove(organization, name)),
      this.#each(sent, async ({ organization, name }) => {
        if (name !== '') await rest.remove(organization, `rc_${name}`)
      }),
    ])
    await this.#gone()
    over.abort()
    await scraping
    await roles.stop()
    return {
      book: this.#book,
      credentials: { kubectl: handed.length, rest: sent.length },
      stored: { kubectl: this.#stored.kubectl.size, rest: this.#stored.rest.size },
      missed: this.#missed,
      faults: this.#faults,
      kills: roles.kills,
    }
  }

  #plan(way: 'kubectl' | 'rest'): Kept[] {
    const { organizations } = this.#scene
    const { credentials } = this.#options
    const secrets = this.#book.stored(way, 2 * organizations.length * credentials)
    return organizations.flatMap((organization) =>
      Array.from({ length: credentials }, (_, i) => ({
        organization,
        name: way === 'kubectl' ? `handover-${i}` : '',
        secrets: [secrets.pop() ?? '', secrets.pop() ?? ''] as const,
      })),
    )
  }

  async #handOver({ organization, name, secrets }: Kept, turn: 0 | 1, i: number): Promise<void> {
    const shape = { retained: i % 5 === 0, applied: i % 2 === 0 }
    await this.#owner.handOver({ organization, name, value: secrets[turn] }, shape)
    if (turn === 0) await this.#owner.make(organization, name)
  }

  /** Secrets that are rejected, and secrets in a wrong place. */
  async #misuse(): Promise<void> {
    const { rest, organizations } = this.#scene
    const { refused } = this.#options
    for (const [i, secret] of this.#book.refused('rest', refused).entries())
      await rest.misuse(organizations[i % organizations.length] ?? '', secret)
    const shapes = [{}, {}, { type: 'Opaque' }, { type: 'example.test/other' }]
    for (const [i, value] of this.#book.refused('kubectl', refused).entries()) {
      const organization = organizations[i % organizations.length] ?? ''
      const name = `handover-refused-${this.#book.all('kubectl').length - refused + i}`
      await this.#owner.handOver({ organization, name, value }, shapes[i % shapes.length])
      await this.#owner.make(organization, name)
    }
  }

  async #each(kept: readonly Kept[], act: (one: Kept, i: number) => Promise<void>): Promise<void> {
    const waiting = [...kept.entries()]
    const work = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) await act(next[1], next[0])
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, work))
  }

  /** While AWS has every fault, and processes are killed. */
  async #storm(what: string, works: readonly Promise<void>[]): Promise<void> {
    const { aws, roles } = this.#scene
    const over = new AbortController()
    const troubles = troubleAws(aws.emulator, this.#random.fork(), over.signal)
    const crashes = roles.killAtRandom(this.#random.fork(), this.#options.lifeMs, over.signal)
    await Promise.all(works)
    await sleep(this.#options.stormMs)
    over.abort()
    this.#faults += await troubles
    await crashes
    this.#options.say(`${what}; ${this.#faults} faults of AWS and ${roles.kills} kills so far`)
  }

  /** Until what was to be stored is, or not in time. */
  async #calm(handed: readonly Kept[], sent: readonly Kept[], turn: 0 | 1): Promise<void> {
    const limit = performance.now() + this.#options.calmMs
    const isStored = ({ organization, name, secrets }: Kept) =>
      name !== '' && this.#scene.valueOf(organization, name) === secrets[turn]
    while (performance.now() < limit && !handed.every(isStored)) await sleep(POLL_MS)
    for (const [way, kept] of [
      ['kubectl', handed],
      ['rest', sent],
    ] as const)
      for (const one of kept) {
        const secret = one.secrets[turn]
        if (isStored(one)) this.#stored[way].add(secret)
        else
          this.#missed.push(
            `${way}, ${turn === 0 ? 'new' : 'rotated'}, ${this.#book.shapeOf(secret)}: ${whyOf(one)}`,
          )
      }
    const { kubectl, rest } = this.#stored
    this.#options.say(`${kubectl.size} secrets of kubectl and ${rest.size} of REST were stored`)
  }

  /** Until nothing of what was deleted is left, or not in time. */
  async #gone(): Promise<void> {
    const limit = performance.now() + this.#options.calmMs
    const left = async () => {
      const counts = await Promise.all(
        this.#scene.organizations.map(async (organization) => {
          const names = [...(await this.#owner.versions(organization)).keys()]
          return names.filter((name) => !name.startsWith('handover-refused-')).length
        }),
      )
      return counts.reduce((sum, count) => sum + count, 0)
    }
    let last = await left()
    while (performance.now() < limit && last > 0) {
      await sleep(POLL_MS)
      last = await left()
    }
    this.#options.say(`${last} credentials are left`)
  }
}

function whyOf({ last }: Kept): string {
  if (last === undefined) return 'not in the account in time'
  return last.done ? 'answered as done, and it is not in the account' : last.why
}
