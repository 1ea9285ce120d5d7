/** Plans the faults of a fleet: their kinds and their times. Everything is drawn from a seed in advance. */
import type { SeededRandom } from '../seeded-random.ts'
import type { Role } from './member.ts'

export const FAULT_KINDS = [
  'kill controller',
  'kill REST server',
  'suspend controller',
  'suspend REST server',
  'pause controller',
  'roll controllers',
  'roll REST servers',
  'API server restart',
  'etcd restart',
  'etcd compaction',
  'no space in etcd',
  'cut',
  'delay',
  'deaf',
  'hold',
  'clock step',
  'change version',
] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** The kinds of records: faults, and Leases that lapsed without one. */
export const RECORD_KINDS = [...FAULT_KINDS, 'lapse'] as const
export type RecordKind = (typeof RECORD_KINDS)[number]

/** One fault. Times in milliseconds. */
export type Fault = {
  kind: FaultKind
  /** Whether everything heals, becomes ready and rests before it. */
  rests: boolean
  /** Time after the start of the previous fault, or after the rest. */
  pauseMs: number
  /** Time until it is undone. */
  forMs: number
  /** The affected member, if it is only one: a controller or REST server, by its index. */
  target?: { role: Role; index: number }
  /** Whether the replacement of a process is another replica. */
  newName: boolean
  /** Other random choices: delays in milliseconds, or the step of a clock. */
  upMs: number
  downMs: number
  stepMs: number
  deaf: 'up' | 'down'
  /** One in this many connections is held. */
  heldOf: number
  seed: number
}

export type PlanOptions = {
  controllers: number
  servers: number
  /** How long a silent replica is believed to live. */
  leaseMs: number
  /** Number of faults of each kind; absent: without an end. */
  faultsOfEach?: number
  /** Absent: all kinds. */
  kinds?: readonly FaultKind[]
  /** Average number of faults between two rests. */
  between: number
  /** For short runs: a share of the usual times. */
  pace: number
  /** Duration of faults; absent: drawn for each kind. */
  forMs?: number
  /** Whether there is another version to change to. */
  otherVersion: boolean
}

type Spell = readonly [number, number]

/** Durations in milliseconds, except for those that depend on the lease; one of several ranges is drawn. */
const LASTS: Readonly<Record<Exclude<FaultKind, 'suspend controller'>, readonly Spell[]>> = {
  // In leases: too short to be noticed.
  'pause controller': [[0.2, 0.6]],
  'kill controller': [[0, 5000]],
  'kill REST server': [[0, 5000]],
  // In leases.
  'suspend REST server': [[1.1, 2]],
  'roll controllers': [[0, 500]],
  'roll REST servers': [[0, 500]],
  // A new process, the most frequent case; and the duration of an upgrade of a control plane, as long as retention deletes only
  // what has been seen before.
  'API server restart': [
    [100, 6000],
    [100, 6000],
    [100, 6000],
    [5000, 90_000],
  ],
  'etcd restart': [[0, 4000]],
  'etcd compaction': [[0, 0]],
  'no space in etcd': [[1000, 12_000]],
  cut: [[500, 20_000]],
  delay: [[3000, 15_000]],
  deaf: [[2000, 20_000]],
  hold: [[2000, 15_000]],
  'clock step': [[2000, 20_000]],
  // Between one member and the next.
  'change version': [[0, 8000]],
}
/** Time within which the work of a controller ends. */
export const DRAIN_MS = 21_000
const STEPS_MS = [-86_400_000, -3_600_000, -301_000, -30_000, 30_000, 301_000, 3_600_000, 86_400_000]
export const STORE: ReadonlySet<RecordKind> = new Set([
  'API server restart',
  'etcd restart',
  'etcd compaction',
  'no space in etcd',
])
const WAY: ReadonlySet<RecordKind> = new Set(['cut', 'delay', 'deaf', 'hold'])
/** Kinds whose durations depend on the lease. */
const OF_LEASE: ReadonlySet<FaultKind> = new Set(['pause controller', 'suspend REST server'])
const PAUSE_MS = [300, 3500] as const

/** Replaces all controllers and REST servers, one after the other, by those of another version. */
export const OF_VERSIONS: FaultKind = 'change version'

/** Corresponding faults of the two roles. */
const ROLES: readonly (readonly [FaultKind, FaultKind])[] = [
  ['kill controller', 'kill REST server'],
  ['suspend controller', 'suspend REST server'],
  ['roll controllers', 'roll REST servers'],
]

/**
 * Draws from shuffled bags; without an end, the roles take turns, so that faults of processes are not more frequent than others.
 */
export function* planFaults(random: SeededRandom, options: PlanOptions): Generator<Fault> {
  const { faultsOfEach, otherVersion } = options
  const kinds = (options.kinds ?? FAULT_KINDS).filter((kind) => otherVersion || kind !== OF_VERSIONS)
  if (faultsOfEach !== undefined) {
    const all = kinds.flatMap((kind) => Array<FaultKind>(faultsOfEach).fill(kind))
    for (const kind of shuffled(all, random)) yield draw(kind, random, options)
    return
  }
  for (let turn = 0; ; turn += 1) {
    const resting = ROLES.filter((pair) => pair.every((kind) => kinds.includes(kind))).map(
      (pair) => pair[turn % 2],
    )
    const bag = kinds.filter((kind) => !resting.includes(kind))
    for (const kind of shuffled(bag, random)) yield draw(kind, random, options)
  }
}

function draw(kind: FaultKind, random: SeededRandom, options: PlanOptions): Fault {
  const target = targetOf(kind, random, options)
  return {
    kind,
    rests: random.chance(1 / options.between),
    pauseMs: Math.round(random.between(...PAUSE_MS) * options.pace),
    forMs: lastsMs(kind, random, options),
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

function lastsMs(kind: FaultKind, random: SeededRandom, options: PlanOptions): number {
  const { leaseMs, pace, forMs } = options
  if (forMs !== undefined) return forMs
  if (kind !== 'suspend controller') {
    const unit = OF_LEASE.has(kind) ? leaseMs : pace
    return Math.round(oneOf(LASTS[kind], random) * unit)
  }
  // The others wait for its lease to end, and have taken nothing yet; they have taken everything.
  const spells: Spell[] = [
    [leaseMs * 1.1, leaseMs * 2],
    [leaseMs + DRAIN_MS + 1000, leaseMs + DRAIN_MS + 30_000],
  ]
  return Math.round(oneOf(spells, random))
}

function oneOf(spells: readonly Spell[], random: SeededRandom): number {
  const [shortest, longest] = spells[Math.floor(random.fraction() * spells.length)] ?? [0, 0]
  return random.between(shortest, longest)
}

function targetOf(kind: FaultKind, random: SeededRandom, options: PlanOptions): Fault['target'] {
  if (STORE.has(kind) || kind.startsWith('roll') || kind === OF_VERSIONS) return undefined
  const { controllers, servers } = options
  const ofAny = random.fraction() * (controllers + servers) < controllers ? 'controller' : 'api'
  const role = kind.endsWith('controller') ? 'controller' : kind.endsWith('REST server') ? 'api' : ofAny
  const count = role === 'controller' ? controllers : servers
  return { role, index: Math.floor(random.fraction() * count) }
}

/** Whether the two faults exclude each other. */
export function collide(one: Fault, other: Fault): boolean {
  const sorts = [sortOf(one.kind), sortOf(other.kind)]
  if (sorts[0] !== sorts[1]) return false
  if (sorts[0] === 'store' || one.kind === OF_VERSIONS || other.kind === OF_VERSIONS) return true
  if (roleIn(one) !== roleIn(other)) return false
  return !one.target || !other.target || one.target.index === other.target.index
}

/** The affected role; all roles without a target. */
function roleIn({ kind, target }: Fault): Role {
  return target?.role ?? (kind === 'roll REST servers' ? 'api' : 'controller')
}

export function sortOf(kind: RecordKind): 'store' | 'way' | 'clock' | 'process' {
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
