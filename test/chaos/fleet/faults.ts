/** What is done to a fleet: kinds of faults, and when each comes. All of it is drawn from a seed, before it begins. */
import type { SeededRandom } from '../seeded-random.ts'
import type { Role } from './member.ts'

export const FAULT_KINDS = [
  'kill controller',
  'kill facade',
  'suspend controller',
  'suspend facade',
  'roll controllers',
  'roll facades',
  'API server restart',
  'etcd restart',
  'etcd compaction',
  'no space in etcd',
  'cut',
  'delay',
  'deaf',
  'hold',
  'clock step',
] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** One thing that is done. Times in milliseconds. */
export type Fault = {
  kind: FaultKind
  /** After the episode's begin. */
  afterMs: number
  /** Until it is undone. */
  forMs: number
  /** Which of the members, where it is done to one: a controller or facade, by its index. */
  target?: { role: Role; index: number }
  /** A process that is started in place of one is another replica. */
  newName: boolean
  /** In words, what else was drawn; of delays milliseconds, of clocks the step. */
  upMs: number
  downMs: number
  stepMs: number
  deaf: 'up' | 'down'
  /** Which connections are held: of so many, one. */
  heldOf: number
  seed: number
}

/** Faults that overlap. */
export type Episode = { faults: Fault[]; calmMs: number; heals: boolean }

export type PlanOptions = {
  controllers: number
  facades: number
  /** How long a replica is believed to live that says nothing. */
  leaseMs: number
  /** Of each kind; absent: without an end, each with its own rate. */
  faultsOfEach?: number
  /** Which kinds there are; absent: all. */
  kinds?: readonly FaultKind[]
  /** Of short runs: a share of the usual times. */
  pace: number
}

/** How often each comes against the others. */
const RATES: Readonly<Record<FaultKind, number>> = {
  'kill controller': 4,
  'kill facade': 2,
  'suspend controller': 2,
  'suspend facade': 1,
  'roll controllers': 2,
  'roll facades': 1,
  'API server restart': 2,
  'etcd restart': 2,
  'etcd compaction': 2,
  'no space in etcd': 2,
  cut: 3,
  delay: 2,
  deaf: 2,
  hold: 2,
  'clock step': 2,
}

/** How long each lasts, in milliseconds. */
const LASTS: Readonly<Record<FaultKind, readonly [number, number]>> = {
  'kill controller': [0, 5000],
  'kill facade': [0, 5000],
  // Against the lease.
  'suspend controller': [1.1, 2],
  'suspend facade': [1.1, 2],
  'roll controllers': [0, 500],
  'roll facades': [0, 500],
  'API server restart': [100, 6000],
  'etcd restart': [0, 4000],
  'etcd compaction': [0, 0],
  'no space in etcd': [1000, 12_000],
  cut: [500, 20_000],
  delay: [3000, 15_000],
  deaf: [2000, 20_000],
  hold: [2000, 15_000],
  'clock step': [2000, 20_000],
}

const STEPS_MS = [-3_600_000, -301_000, -30_000, 30_000, 301_000, 3_600_000]
const STORE: ReadonlySet<FaultKind> = new Set([
  'API server restart',
  'etcd restart',
  'etcd compaction',
  'no space in etcd',
])
const WAY: ReadonlySet<FaultKind> = new Set(['cut', 'delay', 'deaf', 'hold'])
const OVERLAP_MS = 4000
const CALM_MS = [500, 6000] as const

export function* planEpisodes(random: SeededRandom, options: PlanOptions): Generator<Episode> {
  const bag: FaultKind[] = []
  for (let refills = 0; ; ) {
    if (bag.length === 0) {
      if (options.faultsOfEach !== undefined && refills > 0) return
      bag.push(...shuffled(filling(options), random))
      refills += 1
    }
    yield episodeOf(bag, random, options)
  }
}

function filling({ kinds = FAULT_KINDS, faultsOfEach }: PlanOptions): FaultKind[] {
  return kinds.flatMap((kind) => Array<FaultKind>(faultsOfEach ?? RATES[kind]).fill(kind))
}

function episodeOf(bag: FaultKind[], random: SeededRandom, options: PlanOptions): Episode {
  const many = random.fraction()
  const wanted = many < 0.65 ? 1 : many < 0.93 ? 2 : 3
  const faults: Fault[] = []
  while (faults.length < wanted && bag.length > 0) {
    const fault = draw(bag[bag.length - 1] ?? 'cut', random, options, faults.length > 0)
    if (faults.some((one) => collide(one, fault))) break
    bag.pop()
    faults.push(fault)
  }
  return {
    faults,
    calmMs: random.between(...CALM_MS) * options.pace,
    heals: random.chance(0.7),
  }
}

function draw(kind: FaultKind, random: SeededRandom, options: PlanOptions, joins: boolean): Fault {
  const [shortest, longest] = LASTS[kind]
  const unit = kind.startsWith('suspend') ? options.leaseMs : options.pace
  const target = targetOf(kind, random, options)
  return {
    kind,
    afterMs: joins ? Math.round(random.between(0, OVERLAP_MS * options.pace)) : 0,
    forMs: Math.round(random.between(shortest, longest) * unit),
    ...(target ? { target } : {}),
    newName: random.chance(0.5),
    upMs: Math.round(random.between(20, 800)),
    downMs: Math.round(random.between(20, 800)),
    stepMs: STEPS_MS[Math.floor(random.fraction() * STEPS_MS.length)] ?? 0,
    deaf: random.chance(0.5) ? 'up' : 'down',
    heldOf: 1 + Math.floor(random.fraction() * 3),
    seed: Math.floor(random.fraction() * 2 ** 32),
  }
}

function targetOf(kind: FaultKind, random: SeededRandom, options: PlanOptions): Fault['target'] {
  if (STORE.has(kind) || kind.startsWith('roll')) return undefined
  const { controllers, facades } = options
  const ofAny = random.fraction() * (controllers + facades) < controllers ? 'controller' : 'api'
  const role = kind.endsWith('controller') ? 'controller' : kind.endsWith('facade') ? 'api' : ofAny
  const count = role === 'controller' ? controllers : facades
  return { role, index: Math.floor(random.fraction() * count) }
}

/** Whether both cannot be done at a time. */
export function collide(one: Fault, other: Fault): boolean {
  const sorts = [sortOf(one.kind), sortOf(other.kind)]
  if (sorts[0] !== sorts[1]) return false
  if (sorts[0] === 'store') return true
  if (!one.target || !other.target) return true
  return one.target.role === other.target.role && one.target.index === other.target.index
}

function sortOf(kind: FaultKind): 'store' | 'way' | 'clock' | 'process' {
  if (STORE.has(kind)) return 'store'
  if (WAY.has(kind)) return 'way'
  return kind === 'clock step' ? 'clock' : 'process'
}

function shuffled<T>(items: readonly T[], random: SeededRandom): T[] {
  return items
    .map((item) => ({ item, at: random.fraction() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
