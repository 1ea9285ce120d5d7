/** The results of the sections `rest-publishing`, `rest-tls` and `rest-replicas`, in the form of their files in bench/results. */
import { z } from 'zod'

const spread = z.object({ min: z.number(), median: z.number(), max: z.number() })
const quantiles = z.object({ p50: spread, p99: spread })
const words = z.record(z.string(), z.string())

/** The same load in each round. */
const turns = z.object({
  /** Deliveries per second, from the first publication until the last outcome was durable. */
  perSecond: spread,
  /** Milliseconds from the publication of an event to its receipt, and from a request to its response. */
  receipt: quantiles,
  answered: quantiles,
  /** CPU milliseconds for each event, by process; all REST servers together are `restServer`. */
  cpu: z.record(z.string(), spread),
  /** Of all processes together but the bench's own. */
  allCpu: spread,
  /** Writes of all processes at the API server. */
  writesPerDelivery: spread,
})
export type Turns = z.output<typeof turns>

const measured = {
  versions: words,
  /** Rounds that were measured, and the duration of each turn. */
  rounds: z.int(),
  seconds: z.number(),
}

const profile = z.object({
  /** The load during the profile. */
  name: z.string(),
  busyMs: z.number(),
  functions: z.array(
    z.object({
      name: z.string(),
      place: z.string(),
      ms: z.number(),
      /** Of the busy time: 0 to 1. */
      share: z.number(),
    }),
  ),
})
export type ServerProfile = z.output<typeof profile>

const publishing = z.object({
  ...measured,
  /** Deliveries per second of the raw loop, and its CPU milliseconds for each delivery, by process. */
  raw: spread,
  rawCpu: z.record(z.string(), spread),
  /** `ofRaw`: the rate, relative to the mean of the raw loop before and after, in the same round. */
  cases: z.array(turns.extend({ name: z.string(), ofRaw: spread })),
  /** Only with `--profiles`. */
  profiles: z.array(profile),
})
export type RestPublishing = z.output<typeof publishing>

const tls = z.object({
  ...measured,
  cases: z.array(
    z.object({
      name: z.string(),
      off: turns,
      on: turns,
      /** With TLS, relative to the turn without TLS in the same round. */
      ratio: z.object({
        perSecond: spread,
        receipt: quantiles,
        /** CPU of the REST server, and of all processes but the bench's own. */
        restServerCpu: spread,
        allCpu: spread,
      }),
    }),
  ),
})
export type RestTls = z.output<typeof tls>

const replicas = z.object({
  ...measured,
  loads: z.array(
    z.object({
      name: z.string(),
      counts: z.array(
        z.object({
          servers: z.int(),
          turns,
          /** CPU of all REST servers, and of all processes but the bench's own, relative to one REST server in the same round. */
          restServerCpu: spread,
          allCpu: spread,
          /** CPU milliseconds for each event that the last of these servers adds, by the same two measures; 0 for the first. */
          addedRestServerCpu: spread,
          addedAllCpu: spread,
        }),
      ),
    }),
  ),
})
export type RestReplicas = z.output<typeof replicas>

/** The section's name in the file, by the section. */
export const REST_LOAD_RESULTS = {
  'rest-publishing': 'restPublishing',
  'rest-tls': 'restTls',
  'rest-replicas': 'restReplicas',
} as const
export type RestLoadSection = keyof typeof REST_LOAD_RESULTS

/** What the page of the benchmark shows of such a file. */
export const restLoadFile = z.object({
  measuredAt: z.string(),
  about: words,
  restPublishing: publishing.optional(),
  restTls: tls.optional(),
  restReplicas: replicas.optional(),
})
export type RestLoadFile = z.output<typeof restLoadFile>
