/** Limits on BoxTemplates: how many an organization may have, and how many bakes may run at the same time. */
import type { BoxTemplate } from '../../apis/box-template.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'

const CODE = 'too_many_templates'

/** Whether the organization has `limit` older templates. Templates of the same second count in the order of their names. */
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

/** Whether the status reports the exceeded quota already, for the current spec and rebake request. */
export function isReportedOverQuota({ metadata, status }: BoxTemplate, rebake: string | undefined): boolean {
  return (
    status?.bake?.failure?.code === CODE &&
    status.observedGeneration === metadata.generation &&
    status.bake.observedRebake === rebake
  )
}

/** The templates that may get below the quota when this one is deleted. */
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

export type BakeLimits = { organization: number; all: number }

/**
 * A semaphore for bakes with a limit per organization and one for all. Waiters get their slots first come, first served; an
 * organization at its limit does not block the others. Keys are `<organization>/<name>`.
 */
export class BakeSlots {
  readonly #limits: BakeLimits
  readonly #wake: (key: string) => void
  readonly #taken = new Set<string>()
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

  /** Takes a slot regardless of the limits, for a bake that is in progress: an earlier process started it. */
  occupy(key: string): void {
    this.#taken.add(key)
    this.#waiting.delete(key)
  }

  /** @returns the limit that is reached, or undefined with a slot taken */
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

  /** Gives back the slot, or the place in the queue, and wakes those that can go next. */
  release(key: string): void {
    const waited = this.#waiting.delete(key)
    if (!this.#taken.delete(key) && !waited) return
    for (const next of this.#next()) this.#wake(next)
  }

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
