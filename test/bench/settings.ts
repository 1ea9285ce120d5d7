/** What a run of the bench measures, and for how long. */
import { parseArgs } from 'node:util'
import type { CredentialsPlan } from './sections/credentials.ts'
import type { IsolationPlan } from './sections/isolation.ts'
import type { MemoryPlan } from './sections/memory.ts'
import type { ReplicasPlan } from './sections/replicas.ts'
import type { PublishingPlan } from './sections/rest-publishing.ts'
import type { RestReplicasPlan } from './sections/rest-replicas.ts'
import type { RestLoadPlan } from './sections/rest-turn.ts'

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
  'rest-publishing',
  'rest-tls',
  'rest-replicas',
  'credentials',
  'soak',
] as const
export type SectionName = (typeof SECTIONS)[number]

export type Plan = {
  /** Of the file under bench/results. */
  name: string
  /** Whether the caller gave that name. */
  isNamed: boolean
  /** Durations and numbers of rounds. */
  form: 'quick' | 'full' | 'long'
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
  restPublishing: PublishingPlan
  restTls: RestLoadPlan
  restReplicas: RestReplicasPlan
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

type FormOfPlan = Omit<Plan, 'name' | 'isNamed' | 'form'>

/** Together at most five minutes in the quick form, and at most half an hour in the full one. */
const REST_LOADS = {
  quick: {
    restPublishing: { rounds: 1, seconds: 4, limitSeconds: 100 },
    restTls: { rounds: 1, seconds: 4, limitSeconds: 70 },
    restReplicas: { rounds: 1, seconds: 4, warmUpSeconds: 2, limitSeconds: 120 },
  },
  full: {
    restPublishing: { rounds: 3, seconds: 10, limitSeconds: 600 },
    restTls: { rounds: 5, seconds: 10, limitSeconds: 480 },
    restReplicas: { rounds: 6, seconds: 10, warmUpSeconds: 12, limitSeconds: 720 },
  },
} as const satisfies Record<string, Pick<Plan, 'restPublishing' | 'restTls' | 'restReplicas'>>

const PLANS = {
  quick: {
    sections: [
      'saturation',
      'latency',
      'isolation',
      'replicas',
      'pending',
      'log',
      'rest',
      'rest-publishing',
      'rest-tls',
      'rest-replicas',
      'credentials',
    ],
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
    ...REST_LOADS.quick,
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
      'rest-publishing',
      'rest-tls',
      'rest-replicas',
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
    ...REST_LOADS.full,
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
    ...REST_LOADS.full,
    credentials: { organizations: 50, each: 20, perSecond: 3, idleSeconds: 60 },
    soakMinutes: 15,
  },
} as const satisfies Record<Plan['form'], FormOfPlan>

export const USAGE = `usage: npm run bench -- [--quick | --long] [--only SECTION,...] [--name NAME] [--profiles FOLDER]

  (nothing)   everything but the long run: about 80 minutes
  --quick     a short form of it: about 12 minutes
  --long      15 minutes at half of saturation, with small bodies and with large ones
  --only      of ${SECTIONS.join(', ')}
  --name      of the file under bench/results; default is the form of the run, or its sections
  --profiles  where rest-publishing writes CPU profiles of the REST server; default is none
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
      profiles: { type: 'string' },
    },
  })
  const form = values.long ? 'long' : values.quick ? 'quick' : 'full'
  const plan: FormOfPlan = PLANS[form]
  const sections = values.only?.split(',') ?? plan.sections
  const unknown = sections.find((section) => !isSection(section))
  if (unknown !== undefined) throw new Error(`there is no section ${unknown}`)
  // A part of it is not to stand where all of it stood.
  const name = values.name ?? values.only?.replaceAll(',', '-') ?? form
  if (!/^[\w.-]{1,80}$/.test(name)) throw new Error('a name has letters, digits, dots and dashes')
  const { profiles } = values
  if (profiles !== undefined && !sections.includes('rest-publishing'))
    throw new Error('--profiles requires the section rest-publishing')
  const restPublishing = { ...plan.restPublishing, ...(profiles === undefined ? {} : { profiles }) }
  const isNamed = values.name !== undefined
  return { ...plan, restPublishing, name, isNamed, form, sections: sections.filter(isSection) }
}

function isSection(text: string): text is SectionName {
  return SECTIONS.some((section) => section === text)
}
