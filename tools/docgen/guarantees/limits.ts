/** Figures of storms of watches, and what they may be. */

const CUT = 'cut ten times a second'
const OTHERS = [
  'answered with 410',
  'that say at once that they are too old',
  'answered with 500',
  'answered with 429',
  'that end at once',
  'that say garbage',
]

/** Of one kind of object. */
const listsOf = (trouble: string) => `${trouble}: lists of one kind a minute, most`

export const STORM_LISTS: string[] = [CUT, ...OTHERS].map(listsOf)

/** Of storms that last for five minutes each. */
function stormLimits(most: { cut: number; others: number }): Readonly<Record<string, Limit>> {
  return {
    'seconds of each': { atLeast: 300 },
    [listsOf(CUT)]: { atMost: most.cut },
    ...Object.fromEntries(OTHERS.map((trouble) => [listsOf(trouble), { atMost: most.others }])),
  }
}

/** What figures may be: beyond it the promise that they stand beside was broken, whatever the tests say. */

type Limit = { atMost: number } | { atLeast: number }

const NONE: Limit = { atMost: 0 }

/** By file of results, and by key there. */
export const LIMITS: Readonly<Record<string, Readonly<Record<string, Limit>>>> = {
  addresses: { 'connections to forbidden addresses': NONE, 'connections to the allowed one': { atLeast: 1 } },
  canary: { 'found in any form': NONE, secrets: { atLeast: 1 } },
  certificates: {
    'of them failed by the certificate': { atLeast: 100_000 },
    'heap that an attempt leaves, bytes': { atMost: 20 },
    'resident that an attempt leaves, bytes': { atMost: 100 },
  },
  'deadly-delivery': { 'ends before it was set aside': { atMost: 3 } },
  'deleted-namespace': { 'requests to it after its endpoints were gone': NONE },
  'facade-storm': stormLimits({ cut: 60, others: 20 }),
  fleet: {
    lost: NONE,
    'newest.lost': NONE,
    'duplicates.unexplained': NONE,
    inversions: NONE,
    gaps: NONE,
    overlaps: NONE,
    'leases.sent without one': NONE,
    beyondEight: NONE,
    'waits.outside': NONE,
    'keys that were two events': NONE,
    'events matched as before an answered change': NONE,
    'deliveries too many or too few': NONE,
    'afterDisabling.latestMs': { atMost: 250 },
    'afterDeleting.attempts': NONE,
    'faults.roll controllers.duplicates.most': NONE,
    'faults.change version.duplicates.most': NONE,
    // As many outcomes may wait to be stored.
    'faults.kill controller.duplicates.most': { atMost: 1000 },
    'faults.suspend controller.duplicates.most': { atMost: 1000 },
    // Shorter than a Lease of the fleets; and that, what has been begun, and the work on a busy machine.
    'faults.roll controllers.failOverAloneMs.p50': { atMost: 9000 },
    'faults.kill controller.failOverAloneMs.p50': { atMost: 36_000 },
    'faults.suspend controller.failOverAloneMs.p50': { atMost: 36_000 },
  },
  histories: { 'tests that failed': NONE },
  kills: {
    kills: { atLeast: 1000 },
    'while it read back': { atLeast: 100 },
    'beside an outage of the API server': { atLeast: 50 },
    'beside a compaction': { atLeast: 100 },
    'deliveries accepted': { atLeast: 10_000 },
    lost: NONE,
    'received again, without a kill': NONE,
    'out of order': NONE,
    'attempted more than eight times': NONE,
    'promises broken': NONE,
  },
  'foreign-names': {
    'webhooks with its data elsewhere': NONE,
    'its secrets shown': NONE,
    'process exits': NONE,
  },
  'large-organization': {
    endpoints: { atLeast: 5000 },
    'p99 of another organization beside them over that without': { atMost: 1.5 },
  },
  'long-outage': { 'endpoints disabled': NONE, 'most at a time': { atMost: 4 } },
  loops: { 'events that came of it': NONE },
  'many-subscribers': { 'received twice': NONE, received: { atLeast: 300 } },
  mutation: { 'caught, %': { atLeast: 85 } },
  neighbours: { 'good endpoints': { atLeast: 999 }, 'p99 beside it over that without': { atMost: 1.1 } },
  'other-crds': { 'older: process exits': NONE, 'newer: process exits': NONE },
  'poisoned-objects': { 'process exits': NONE },
  receivers: { 'connections left open': NONE, 'longest attempt, ms': { atMost: 21_000 } },
  'renewed-tokens': { 'processes that ended': NONE, 'refusals that logs tell of': { atLeast: 1 } },
  'shard-keeper': { 'caught, %': { atLeast: 85 } },
  soak: {
    minutes: { atLeast: 60 },
    'heap slope, MB/h': { atMost: 5 },
    'open files, most': { atMost: 500 },
    'facade: heap slope, MB/h': { atMost: 5 },
    'facade: open files, most': { atMost: 500 },
    'facade: connections held for too long': NONE,
    'facade: of them not answered as they should be': NONE,
  },
  'two-api-servers': {
    'behind, measured, ms': { atLeast: 200 },
    'events matched as before an answered change': NONE,
    'received twice': NONE,
  },
  'watch-storm': stormLimits({ cut: 180, others: 50 }),
}

/** In words, which of these figures are beyond what they may be. Those that are not there are not. */
export function brokenLimits(
  of: string,
  figure: (key: string) => unknown,
  limits = LIMITS[of] ?? {},
): string[] {
  return Object.entries(limits).flatMap(([key, limit]) => {
    const value = figure(key)
    return value === undefined || keeps(value, limit) ? [] : [`${of}: ${key} ${value}, ${wordsOf(limit)}`]
  })
}

/** `at most 0` */
export function wordsOf(limit: Limit): string {
  const [word, bound] = 'atMost' in limit ? ['at most', limit.atMost] : ['at least', limit.atLeast]
  return `${word} ${bound.toLocaleString('en-GB')}`
}

function keeps(value: unknown, limit: Limit): boolean {
  const number = Number(value)
  return 'atMost' in limit ? number <= limit.atMost : number >= limit.atLeast
}
