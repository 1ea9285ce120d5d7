import type { BoxTemplate } from '../../apis/box-template.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'

/** How many templates an organization may have: those beyond that, the youngest, are not looked after. */

const CODE = 'too_many_templates'

/** Whether there are as many older ones as there may be. Of those of one second the first by name is the oldest. */
export function exceedsTemplateQuota(
  templates: Pick<MutationCache<BoxTemplate>, 'in'>,
  { metadata }: BoxTemplate,
  limit: number,
): boolean {
  const own = ageOf(metadata)
  let older = 0
  for (const other of templates.in(metadata.namespace ?? '')) {
    if (other.metadata.deletionTimestamp === undefined && ageOf(other.metadata) < own) older += 1
    if (older >= limit) return true
  }
  return false
}

/** Whether the status of a template says that there are too many, and nothing has been asked of it since. */
export function isReportedOverQuota({ metadata, status }: BoxTemplate, rebake: string | undefined): boolean {
  return (
    status?.bake?.failure?.code === CODE &&
    status.observedGeneration === metadata.generation &&
    status.bake.observedRebake === rebake
  )
}

/** Those that there may be room for when another one goes. */
export function templatesOverQuota(
  templates: Pick<MutationCache<BoxTemplate>, 'in'>,
  { metadata, status }: BoxTemplate,
): BoxTemplate[] {
  if (status?.bake?.failure?.code === CODE) return []
  return templates.in(metadata.namespace ?? '').filter((other) => other.status?.bake?.failure?.code === CODE)
}

function ageOf({ creationTimestamp = '', name }: BoxTemplate['metadata']): string {
  return `${creationTimestamp} ${name}`
}

/** How many bakes may be under way at a time. */
export type BakeLimits = { organization: number; all: number }

/**
 * Whose turn it is to bake. Who finds no room waits, in the order of asking, and is woken when there is some; an organization that
 * has all of its own holds up nobody else. Keys are `<organization>/<name>`.
 */
export class BakeSlots {
  readonly #limits: BakeLimits
  readonly #wake: (key: string) => void
  readonly #taken = new Set<string>()
  /** In the order of asking. */
  readonly #waiting = new Set<string>()

  constructor(limits: BakeLimits, wake: (key: string) => void) {
    this.#limits = limits
    this.#wake = wake
  }

  get taken(): number {
    return this.#taken.size
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Of a bake that is under way, whatever the limits say: a process before this one began it. */
  occupy(key: string): void {
    this.#taken.add(key)
    this.#waiting.delete(key)
  }

  /** @returns whose limit is reached; undefined: its bake may begin */
  acquire(key: string): 'organization' | 'all' | undefined {
    if (this.#taken.has(key)) return undefined
    this.#waiting.add(key)
    const next = this.#next()
    if (next.has(key)) {
      this.occupy(key)
      return undefined
    }
    const organization = organizationOf(key)
    const own = [...this.#taken, ...next].filter((other) => organizationOf(other) === organization)
    return own.length >= this.#limits.organization ? 'organization' : 'all'
  }

  /** Its bake has ended, or it wants none any more. */
  release(key: string): void {
    const waited = this.#waiting.delete(key)
    if (!this.#taken.delete(key) && !waited) return
    for (const next of this.#next()) this.#wake(next)
  }

  /** Those that wait and for whom there is room. */
  #next(): Set<string> {
    const next = new Set<string>()
    const used = new Map<string, number>()
    const count = (organization: string) => used.set(organization, (used.get(organization) ?? 0) + 1)
    for (const key of this.#taken) count(organizationOf(key))
    for (const key of this.#waiting) {
      if (this.#taken.size + next.size >= this.#limits.all) break
      const organization = organizationOf(key)
      if ((used.get(organization) ?? 0) >= this.#limits.organization) continue
      count(organization)
      next.add(key)
    }
    return next
  }
}

function organizationOf(key: string): string {
  return key.slice(0, key.indexOf('/'))
}
