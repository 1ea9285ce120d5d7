/** What is done to a fleet: kinds of faults, and when each comes. All of it is drawn from a seed, before it begins. */
import type { SeededRandom } from '../seeded-random.ts'
import type { Role } from './member.ts'

export const FAULT_KINDS = [
  'kill controller',
  'kill facade',
  'suspend controller',
  'suspend facade',
  'pause controller',
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
  'change version',
] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** What is written down: beside faults, a Lease that ran out by itself. */
export const RECORD_KINDS = [...FAULT_KINDS, 'lapse'] as const
export type RecordKind = (typeof RECORD_KINDS)[number]

/** One thing that is done. Times in milliseconds. */
export type Fault = {
  kind: FaultKind
  /** Before it everything heals, is ready again, and is let alone for a while. */
  rests: boolean
  /** After the begin of the one before, or the rest. */
  pauseMs: number
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

export type PlanOptions = {
  controllers: number
  facades: number
  /** How long a replica is believed to live that says nothing. */
  leaseMs: number
  /** Of each kind; absent: without an end. */
  faultsOfEach?: number
  /** Which kinds there are; absent: all. */
  kinds?: readonly FaultKind[]
  /** How many follow each other, on the average, without a rest between. */
  between: number
  /** Of short runs: a share of the usual times. */
  pace: number
  /** Of whatever takes time; absent: drawn for each kind. */
  forMs?: number
  /** Whether there is another version to change to. */
  otherVersion: boolean
}

type Spell = readonly [number, number]

/** How long each lasts, in milliseconds, but for those that are a matter of the lease; of several one is drawn. */
const LASTS: Readonly<Record<Exclude<FaultKind, 'suspend controller'>, readonly Spell[]>> = {
  // Of the lease: nobody notices.
  'pause controller': [[0.2, 0.6]],
  'kill controller': [[0, 5000]],
  'kill facade': [[0, 5000]],
  // Of the lease, too.
  'suspend facade': [[1.1, 2]],
  'roll controllers': [[0, 500]],
  'roll facades': [[0, 500]],
  // A new process, which is the most frequent; and what an upgrade of a control plane takes, as far as what retention deletes
  // afterwards has been seen before.
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
/** What a controller has begun ends within so long. */
export const DRAIN_MS = 21_000
const STEPS_MS = [-86_400_000, -3_600_000, -301_000, -30_000, 30_000, 301_000, 3_600_000, 86_400_000]
export const STORE: ReadonlySet<RecordKind> = new Set([
  'API server restart',
  'etcd restart',
  'etcd compaction',
  'no space in etcd',
])
const WAY: ReadonlySet<RecordKind> = new Set(['cut', 'delay', 'deaf', 'hold'])
/** Kinds whose times are a matter of the lease. */
const OF_LEASE: ReadonlySet<FaultKind> = new Set(['pause controller', 'suspend facade'])
const PAUSE_MS = [300, 3500] as const

/** All controllers and facades, one after the other, are replaced by such of the other version. */
export const OF_VERSIONS: FaultKind = 'change version'

/** The same done to one role and to the other. */
const ROLES: readonly (readonly [FaultKind, FaultKind])[] = [
  ['kill controller', 'kill facade'],
  ['suspend controller', 'suspend facade'],
  ['roll controllers', 'roll facades'],
]

/** Bag after bag, each of them shuffled; without an end, roles take turns, so that processes get no more than all else does. */
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
  // The others count it out, and take nothing yet; they have taken all that it had.
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
  if (sorts[0] === 'store' || one.kind === OF_VERSIONS || other.kind === OF_VERSIONS) return true
  if (roleIn(one) !== roleIn(other)) return false
  return !one.target || !other.target || one.target.index === other.target.index
}

/** That is touched, all of them where it has no target. */
function roleIn({ kind, target }: Fault): Role {
  return target?.role ?? (kind === 'roll facades' ? 'api' : 'controller')
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
