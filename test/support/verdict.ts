/**
 * Compares the accepted deliveries with what receivers saw. A run is the life of one controller process; runs are numbered from 1
 * and follow each other.
 */

/** One delivery of the log, in the order of the log. */
export type AcceptedDelivery = { endpoint: string; id: string }

/** How a receiver answered one request. `failed`: answered with an error, reset, or not answered at all. */
export type Reception = { endpoint: string; id: string; run: number; answer: 'ok' | 'failed' }

export type Evidence = {
  /** In the order of the log. */
  accepted: readonly AcceptedDelivery[]
  /** In the order of their arrival. */
  receptions: readonly Reception[]
  orderedEndpoints: ReadonlySet<string>
  /** Runs that ended by a kill. */
  killed: ReadonlySet<number>
  maxAttempts: number
  /** Additional excuses if there were other faults than kills. */
  excuses?: Excuses
}

/** Faults of Davit that explain receptions. */
export type Excuses = {
  /** Whether the fault explains the repetition of a successful reception. */
  explains(earlier: Reception, later: Reception): boolean
  /** Number of attempts of one delivery with a possibly unknown outcome. */
  unknown(receptions: readonly Reception[]): number
  /** Deliveries that are known to be exhausted, although not every attempt was received. */
  exhausted: ReadonlySet<string>
}

/** A repeated reception after a successful one. `run` is the run of the successful one. */
export type Duplicate = { endpoint: string; id: string; run: number; explained: boolean }

export type Verdict = {
  accepted: number
  receptions: number
  /** Neither received successfully nor exhausted. */
  lost: AcceptedDelivery[]
  /** Received, but not in the log. */
  unknown: Reception[]
  duplicates: Duplicate[]
  /** More attempts than allowed, beyond those that a kill made unknown. */
  beyond: AcceptedDelivery[]
  /** At an ordered endpoint: a delivery that precedes one that has been begun. */
  inversions: Reception[]
  /** At an ordered endpoint: a delivery that was begun before the previous one had ended. */
  gaps: Reception[]
}

type History = { rank: number; receptions: Reception[] }

export function judge(evidence: Evidence): Verdict {
  const histories = historiesOf(evidence)
  const excuses = evidence.excuses ?? excusesOfKills(evidence.killed)
  const unknown = evidence.receptions.filter((reception) => !histories.has(keyOf(reception)))
  const all = [...histories].map(([key, { receptions }]) => ({ ...deliveryOf(key), receptions }))
  return {
    accepted: evidence.accepted.length,
    receptions: evidence.receptions.length,
    lost: all
      .filter((one) => !hasEnded(one.receptions, evidence.maxAttempts) && !excuses.exhausted.has(keyOf(one)))
      .map(plain),
    unknown,
    duplicates: all.flatMap((one) => duplicatesOf(one, excuses)),
    beyond: all.filter(({ receptions }) => isBeyond(receptions, evidence.maxAttempts, excuses)).map(plain),
    ...judgeOrder(evidence, histories, excuses),
  }
}

function historiesOf({ accepted, receptions }: Evidence): Map<string, History> {
  const histories = new Map<string, History>()
  const ranks = new Map<string, number>()
  for (const delivery of accepted) {
    const rank = ranks.get(delivery.endpoint) ?? 0
    ranks.set(delivery.endpoint, rank + 1)
    histories.set(keyOf(delivery), { rank, receptions: [] })
  }
  for (const reception of receptions) histories.get(keyOf(reception))?.receptions.push(reception)
  return histories
}

function hasEnded(receptions: readonly Reception[], maxAttempts: number): boolean {
  return receptions.some(({ answer }) => answer === 'ok') || receptions.length >= maxAttempts
}

/**
 * A kill explains one more reception of what the killed run had received, since its answer was not stored; and each can make the
 * outcome of one attempt unknown.
 */
function excusesOfKills(killed: ReadonlySet<number>): Excuses {
  return {
    explains: (earlier, later) => later.run > earlier.run && killed.has(earlier.run),
    unknown: (receptions) =>
      [...new Set(receptions.map(({ run }) => run))].filter((run) => killed.has(run)).length,
    exhausted: new Set(),
  }
}

function isBeyond(receptions: readonly Reception[], maxAttempts: number, excuses: Excuses): boolean {
  const extra = receptions.length - maxAttempts
  return extra > 0 && extra > excuses.unknown(receptions)
}

/** Receptions of one delivery after a successful one, each with the latest successful one. */
export function repeatsAmong<R extends Reception>(receptions: readonly R[]): { earlier: R; later: R }[] {
  const repeats: { earlier: R; later: R }[] = []
  let earlier: R | undefined
  for (const later of receptions) {
    if (earlier) repeats.push({ earlier, later })
    if (later.answer === 'ok') earlier = later
  }
  return repeats
}

function duplicatesOf(
  { endpoint, id, receptions }: AcceptedDelivery & { receptions: readonly Reception[] },
  excuses: Excuses,
): Duplicate[] {
  return repeatsAmong(receptions).map(({ earlier, later }) => ({
    endpoint,
    id,
    run: earlier.run,
    explained: excuses.explains(earlier, later),
  }))
}

/** The head may be repeated; nothing before it may be received again, and the next only after the head has ended. */
function judgeOrder(
  { receptions, orderedEndpoints, maxAttempts }: Evidence,
  histories: ReadonlyMap<string, History>,
  excuses: Excuses,
): Pick<Verdict, 'inversions' | 'gaps'> {
  const inversions: Reception[] = []
  const gaps: Reception[] = []
  const isOver = (seen: readonly Reception[]) =>
    seen.length === 0 || hasEnded(seen, maxAttempts) || seen.some((one) => excuses.exhausted.has(keyOf(one)))
  const heads = new Map<string, { rank: number; seen: Reception[] }>()
  for (const reception of receptions) {
    const history = histories.get(keyOf(reception))
    if (!history || !orderedEndpoints.has(reception.endpoint)) continue
    const head = heads.get(reception.endpoint) ?? { rank: -1, seen: [] }
    if (history.rank < head.rank) inversions.push(reception)
    else if (history.rank === head.rank) head.seen.push(reception)
    else {
      if (history.rank > head.rank + 1 || !isOver(head.seen)) gaps.push(reception)
      heads.set(reception.endpoint, { rank: history.rank, seen: [reception] })
    }
  }
  return { inversions, gaps }
}

function plain({ endpoint, id }: AcceptedDelivery): AcceptedDelivery {
  return { endpoint, id }
}

export function keyOf({ endpoint, id }: AcceptedDelivery): string {
  return `${endpoint} ${id}`
}

function deliveryOf(key: string): AcceptedDelivery {
  const [endpoint = '', id = ''] = key.split(' ')
  return { endpoint, id }
}

/** Describes the violations that no crash excuses; empty if all promises held. */
export function violations(verdict: Verdict): string[] {
  const { lost, unknown, duplicates, beyond, inversions, gaps } = verdict
  const name = ({ endpoint, id }: AcceptedDelivery) => `${endpoint} ${id}`
  const found = {
    lost: lost.map(name),
    'received but never accepted': unknown.map(name),
    'received twice without a crash between': duplicates.filter(({ explained }) => !explained).map(name),
    'attempted too often': beyond.map(name),
    'out of order': inversions.map(name),
    'begun before the one before it had ended': gaps.map(name),
  }
  return Object.entries(found).flatMap(([what, which]) =>
    which.length === 0 ? [] : [`${which.length} ${what}: ${which.slice(0, 5).join(', ')}`],
  )
}
