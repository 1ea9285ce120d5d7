/** Counts the attempts of each endpoint, in one line per endpoint. */
import { MAX_ATTEMPTS } from '../src/webhooks/delivery/retry-schedule.ts'
import { isOrdered, RECEIVER_PATHS } from './organization.ts'
import type { Received } from './receiver.ts'
import { fitted, labelOf } from './screen.ts'

/** You can create any number of endpoints, and a terminal has few lines. */
const MAX_LINES = 6
const NAME_WIDTH = 20

type Count = {
  delivered: number
  failed: number
  /** Attempts whose signature did not verify. */
  unverified: number
  /** Deliveries whose last attempt failed. */
  exhausted: number
  /** Ids of the deliveries that wait for their next attempt. */
  retrying: Set<string>
}

export class Counters {
  /** Counted from the first line on, so that the lines do not move. */
  readonly #counts = new Map<string, Count>(RECEIVER_PATHS.map((path) => [path, newCount()]))

  add({ endpoint, id, attempt, verified, code }: Received): void {
    const count = this.#counts.get(endpoint) ?? newCount()
    this.#counts.set(endpoint, count)
    if (!verified) count.unverified += 1
    if (code === 200) {
      count.delivered += 1
      count.retrying.delete(id)
      return
    }
    count.failed += 1
    if (!verified) return
    if (attempt < MAX_ATTEMPTS) count.retrying.add(id)
    else {
      count.exhausted += 1
      count.retrying.delete(id)
    }
  }

  /** The first endpoints, in the order of their first attempts. Almost always under 80 columns wide. */
  lines(): string[] {
    const listed = [...this.#counts].slice(0, MAX_LINES)
    const width = Math.min(Math.max(...listed.map(([path]) => labelOf(path).length)), NAME_WIDTH)
    const hidden = this.#counts.size - listed.length
    return [
      ...listed.map(([path, count]) => [fitted(labelOf(path), width), ...cells(path, count)].join('  ')),
      ...(hidden > 0 ? [`and ${hidden} more`] : []),
    ].map((line) => line.trimEnd())
  }
}

function newCount(): Count {
  return { delivered: 0, failed: 0, unverified: 0, exhausted: 0, retrying: new Set() }
}

function cells(path: string, { delivered, failed, unverified, exhausted, retrying }: Count): string[] {
  const blocks = isOrdered(path) && retrying.size > 0 ? ', others wait' : ''
  return [
    `${padded(delivered, 4)} delivered`,
    `${padded(failed, 4)} failed ${failed === 1 ? 'attempt ' : 'attempts'}`,
    `${padded(retrying.size, 2)} retrying${blocks}`,
    ...(exhausted > 0 ? [`${exhausted} exhausted`] : []),
    ...(unverified > 0 ? [`${unverified} NOT VERIFIED`] : []),
  ]
}

function padded(count: number, width: number): string {
  return String(count).padStart(width)
}
