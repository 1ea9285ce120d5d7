/**
 * Compares what was accepted with what receivers saw. A run is the life of one controller process; runs are numbered
 * from 1 and follow each other.
 */

/** One delivery of the log, in the order of the log. */
export type AcceptedDelivery = { endpoint: string; id: string }

/** What a receiver did with one request. `failed`: answered with an error, reset, or not answered at all. */
export type Reception = { endpoint: string; id: string; run: number; answer: 'ok' | 'failed' }

export type Evidence = {
  /** In the order of the log. */
  accepted: readonly AcceptedDelivery[]
  /** In the order in which they came. */
  receptions: readonly Reception[]
  orderedEndpoints: ReadonlySet<string>
  /** Runs that ended by a kill. */
  killed: ReadonlySet<number>
  maxAttempts: number
}

/** A reception of what had been received well before. `run` is the run that had received it. */
export type Duplicate = { endpoint: string; id: string; run: number; explained: boolean }

export type Verdict = {
  accepted: number
  receptions: number
  /** Neither received well nor attempted as often as allowed. */
  lost: AcceptedDelivery[]
  /** Received, but not in the log. */
  unknown: Reception[]
  duplicates: Duplicate[]
  /** More attempts than allowed, beyond those that a kill made unknown. */
  beyond: AcceptedDelivery[]
  /** At an ordered endpoint: one that lies before one that has been begun. */
  inversions: Reception[]
  /** At an ordered endpoint: one that was begun before the one before it had ended. */
  gaps: Reception[]
}

type History = { rank: number; receptions: Reception[] }

export function judge(evidence: Evidence): Verdict {
  const histories = historiesOf(evidence)
  const unknown = evidence.receptions.filter((reception) => !histories.has(keyOf(reception)))
  const all = [...histories].map(([key, { receptions }]) => ({ ...deliveryOf(key), receptions }))
  return {
    accepted: evidence.accepted.length,
    receptions: evidence.receptions.length,
    lost: all.filter(({ receptions }) => !hasEnded(receptions, evidence.maxAttempts)).map(plain),
    unknown,
    duplicates: all.flatMap((one) => duplicatesOf(one, evidence.killed)),
    beyond: all.filter(({ receptions }) => isBeyond(receptions, evidence)).map(plain),
    ...judgeOrder(evidence, histories),
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

/** A kill explains one more reception of what the killed run had received: its answer was not stored. */
function duplicatesOf(
  { endpoint, id, receptions }: AcceptedDelivery & { receptions: readonly Reception[] },
  killed: ReadonlySet<number>,
): Duplicate[] {
  const duplicates: Duplicate[] = []
  let receivedBy: number | undefined
  for (const { run, answer } of receptions) {
    if (receivedBy !== undefined) {
      const explained = run > receivedBy && killed.has(receivedBy)
      duplicates.push({ endpoint, id, run: receivedBy, explained })
    }
    if (answer === 'ok') receivedBy = run
  }
  return duplicates
}

/** Each kill can make the outcome of one attempt unknown. */
function isBeyond(receptions: readonly Reception[], { killed, maxAttempts }: Evidence): boolean {
  const runs = new Set(receptions.map(({ run }) => run))
  const unknown = [...runs].filter((run) => killed.has(run)).length
  return receptions.length > maxAttempts + unknown
}

/** The head may be repeated; nothing before it may come again, and the next only when the head has ended. */
function judgeOrder(
  { receptions, orderedEndpoints, maxAttempts }: Evidence,
  histories: ReadonlyMap<string, History>,
): Pick<Verdict, 'inversions' | 'gaps'> {
  const inversions: Reception[] = []
  const gaps: Reception[] = []
  const heads = new Map<string, { rank: number; seen: Reception[] }>()
  for (const reception of receptions) {
    const history = histories.get(keyOf(reception))
    if (!history || !orderedEndpoints.has(reception.endpoint)) continue
    const head = heads.get(reception.endpoint) ?? { rank: -1, seen: [] }
    if (history.rank < head.rank) inversions.push(reception)
    else if (history.rank === head.rank) head.seen.push(reception)
    else {
      const headHasEnded = head.rank === -1 || hasEnded(head.seen, maxAttempts)
      if (history.rank > head.rank + 1 || !headHasEnded) gaps.push(reception)
      heads.set(reception.endpoint, { rank: history.rank, seen: [reception] })
    }
  }
  return { inversions, gaps }
}

function plain({ endpoint, id }: AcceptedDelivery): AcceptedDelivery {
  return { endpoint, id }
}

function keyOf({ endpoint, id }: AcceptedDelivery): string {
  return `${endpoint} ${id}`
}

function deliveryOf(key: string): AcceptedDelivery {
  const [endpoint = '', id = ''] = key.split(' ')
  return { endpoint, id }
}

/** What no crash excuses, in words; none when all promises held. */
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
