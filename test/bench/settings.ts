/** What a run of the bench measures, and for how long. */
import { parseArgs } from 'node:util'
import type { CredentialsPlan } from './sections/credentials.ts'
import type { IsolationPlan } from './sections/isolation.ts'
import type { MemoryPlan } from './sections/memory.ts'
import type { ReplicasPlan } from './sections/replicas.ts'

export const SECTIONS = [
  'saturation',
  'latency',
  'burst',
  'objects',
  'failures',
  'isolation',
  'memory',
  'replicas',
  'pending',
  'log',
  'rest',
  'credentials',
  'soak',
] as const
export type SectionName = (typeof SECTIONS)[number]

export type Plan = {
  /** Of the file under bench/results. */
  name: string
  sections: readonly SectionName[]
  /** Raw, Davit, raw, Davit, ... raw: so many times Davit. */
  rounds: number
  saturationSeconds: number
  latencySeconds: number
  /** Of successes at a steady rate, and of failures under load. */
  objectsSeconds: number
  isolation: IsolationPlan
  memory: MemoryPlan
  replicas: ReplicasPlan
  /** Numbers of pending deliveries, growing. */
  pending: readonly number[]
  /** Deliveries in the log that the REST server lists. */
  logLines: number
  /** Duration of each turn at saturation over REST, and of each kind of request. */
  restSeconds: number
  kindsSeconds: number
  /** Over REST, with a check of the REST server's memory after each quarter. */
  requests: number
  credentials: CredentialsPlan
  soakMinutes: number
}

const REPLICAS = {
  // Single rounds of the same thing differ by half: of fewer, the median says little.
  rounds: { saturation: 10, limited: 6, atRates: 3 },
  warmUpSeconds: 45,
  seconds: 10,
  // So little that the store bears three of them.
  cores: 0.1,
  perSecond: [50],
  // What two cores bear of three controllers as well.
  each: 500,
} as const satisfies ReplicasPlan

const PLANS = {
  quick: {
    sections: ['saturation', 'latency', 'isolation', 'replicas', 'pending', 'log', 'rest', 'credentials'],
    rounds: 1,
    saturationSeconds: 6,
    latencySeconds: 8,
    objectsSeconds: 30,
    isolation: { rounds: 1, seconds: 24 },
    memory: { mebibytes: 32 },
    replicas: {
      ...REPLICAS,
      rounds: { saturation: 1, limited: 1, atRates: 1 },
      warmUpSeconds: 5,
      seconds: 6,
    },
    pending: [1000, 4000],
    logLines: 100_000,
    restSeconds: 5,
    kindsSeconds: 10,
    requests: 40_000,
    credentials: { organizations: 20, each: 10, perSecond: 20, idleSeconds: 20 },
    soakMinutes: 1,
  },
  full: {
    sections: [
      'saturation',
      'latency',
      'burst',
      'objects',
      'failures',
      'isolation',
      'memory',
      'replicas',
      'pending',
      'log',
      'rest',
      'credentials',
    ],
    rounds: 3,
    saturationSeconds: 20,
    latencySeconds: 30,
    objectsSeconds: 60,
    isolation: { rounds: 4, seconds: 30 },
    memory: { mebibytes: 512 },
    replicas: REPLICAS,
    pending: [1000, 10_000, 50_000],
    logLines: 1_000_000,
    restSeconds: 12,
    kindsSeconds: 60,
    requests: 1_000_000,
    credentials: { organizations: 50, each: 20, perSecond: 3, idleSeconds: 60 },
    soakMinutes: 15,
  },
  long: {
    sections: ['soak'],
    rounds: 1,
    saturationSeconds: 10,
    latencySeconds: 30,
    objectsSeconds: 60,
    isolation: { rounds: 4, seconds: 30 },
    memory: { mebibytes: 512 },
    replicas: REPLICAS,
    pending: [],
    logLines: 1_000_000,
    restSeconds: 12,
    kindsSeconds: 60,
    requests: 1_000_000,
    credentials: { organizations: 50, each: 20, perSecond: 3, idleSeconds: 60 },
    soakMinutes: 15,
  },
} as const satisfies Record<string, Omit<Plan, 'name'>>

export const USAGE = `usage: npm run bench -- [--quick | --long] [--only SECTION,...] [--name NAME]

  (nothing)  everything but the long run: about an hour
  --quick    a short form of it: about ten minutes
  --long     15 minutes at half of saturation, with small bodies and with large ones
  --only     of ${SECTIONS.join(', ')}
  --name     of the file under bench/results; default is the form of the run, or its sections
`

/** @throws Error in words for people when there is something else on the command line */
export function parsePlan(args: readonly string[]): Plan {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean' },
      long: { type: 'boolean' },
      only: { type: 'string' },
      name: { type: 'string' },
    },
  })
  const form = values.long ? 'long' : values.quick ? 'quick' : 'full'
  const plan = PLANS[form]
  const sections = values.only?.split(',') ?? plan.sections
  const unknown = sections.find((section) => !isSection(section))
  if (unknown !== undefined) throw new Error(`there is no section ${unknown}`)
  // A part of it is not to stand where all of it stood.
  const name = values.name ?? values.only?.replaceAll(',', '-') ?? form
  if (!/^[\w.-]{1,80}$/.test(name)) throw new Error('a name has letters, digits, dots and dashes')
  return { ...plan, name, sections: sections.filter(isSection) }
}

function isSection(text: string): text is SectionName {
  return SECTIONS.some((section) => section === text)
}
