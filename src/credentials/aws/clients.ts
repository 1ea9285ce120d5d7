import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
// Types only: the SDK takes a tenth of a second and 40 MB, which a process that never speaks to AWS does not spend.
import type { ECRClient } from '@aws-sdk/client-ecr'
import type { SSMClient } from '@aws-sdk/client-ssm'
import type { STSClient } from '@aws-sdk/client-sts'
import { LRUCache } from 'lru-cache'

/** A client, and the module that its commands are of. */
export type Sdk<M, C> = { module: M; client: C }
export type Ssm = Sdk<typeof import('@aws-sdk/client-ssm'), SSMClient>
export type Sts = Sdk<typeof import('@aws-sdk/client-sts'), STSClient>
export type Ecr = Sdk<typeof import('@aws-sdk/client-ecr'), ECRClient>

export type Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken: string }

const CONNECT_MS = 2000
/** To the head of the answer; the deadline of the call is over it. */
const ANSWER_MS = 5000
/** To one host, and to all. */
const MAX_SOCKETS = 50
const MAX_TOTAL_SOCKETS = 200
const MAX_IDLE_SOCKETS = 10
/** Regions in use at once. */
const MAX_REGIONS = 64

/** The SDK's own log shows tokens of registries in clear, and its warnings are no use to anybody who reads Davit's log. */
const SILENT = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }

/**
 * Clients of AWS. Endpoints, FIPS and partitions are as the SDK resolves them from region and environment. It makes one attempt
 * only: which failures are repeated, and how, is decided where the call is made.
 */
export class AwsClients {
  readonly #userAgent: string
  readonly #credentials: Credentials | undefined
  readonly #agents: { httpAgent: HttpAgent; httpsAgent: HttpsAgent }
  /** For calls with the identity of this process: it is found out once, and kept by the SDK until it ends. */
  readonly #ownSts = new LRUCache<string, STSClient>({ max: MAX_REGIONS })
  /** How far the clock of this machine is behind that of AWS, in milliseconds, as the SDK found out. */
  #clockOffset = 0

  /**
   * @param userAgent as `davit/0.1.0`
   * @param credentials instead of the identity of this process
   */
  constructor(userAgent: string, credentials?: Credentials) {
    this.#userAgent = userAgent
    this.#credentials = credentials
    const limits = {
      keepAlive: true,
      maxSockets: MAX_SOCKETS,
      maxTotalSockets: MAX_TOTAL_SOCKETS,
      maxFreeSockets: MAX_IDLE_SOCKETS,
    }
    this.#agents = { httpAgent: new HttpAgent(limits), httpsAgent: new HttpsAgent(limits) }
  }

  /** For one call: a client costs little, and what is not kept cannot be mistaken for that of another organization. */
  async ssm(region: string, credentials: Credentials): Promise<Ssm> {
    const module = await import('@aws-sdk/client-ssm')
    return { module, client: new module.SSMClient({ ...this.#common(region), credentials }) }
  }

  /** With the identity of this process. */
  async ownSts(region: string): Promise<Sts> {
    const module = await import('@aws-sdk/client-sts')
    const known = this.#ownSts.get(region)
    if (known) return { module, client: known }
    const client = new module.STSClient(this.#common(region))
    this.#ownSts.set(region, client)
    return { module, client }
  }

  /** With the identity of this process. */
  async ownSsm(region: string): Promise<Ssm> {
    const module = await import('@aws-sdk/client-ssm')
    return { module, client: new module.SSMClient(this.#common(region)) }
  }

  /** With the identity of this process. */
  async ownEcr(region: string): Promise<Ecr> {
    const module = await import('@aws-sdk/client-ecr')
    return { module, client: new module.ECRClient(this.#common(region)) }
  }

  /** The identity of this process is looked for anew, for this region: another may be of a partition that does not know it. */
  forgetIdentity(region: string): void {
    this.#ownSts.delete(region)
  }

  /** What `send` gives; what the client learns of the time by it is known to those that are made later. */
  async timed<T>(client: { config: { systemClockOffset: number } }, send: () => Promise<T>): Promise<T> {
    try {
      return await send()
    } finally {
      this.#clockOffset = client.config.systemClockOffset
    }
  }

  /** Ends idle connections and those in use. */
  close(): void {
    this.#agents.httpAgent.destroy()
    this.#agents.httpsAgent.destroy()
  }

  #common(region: string) {
    return {
      region,
      maxAttempts: 1,
      logger: SILENT,
      customUserAgent: this.#userAgent,
      systemClockOffset: this.#clockOffset,
      ...(this.#credentials && { credentials: this.#credentials }),
      requestHandler: {
        ...this.#agents,
        connectionTimeout: CONNECT_MS,
        requestTimeout: ANSWER_MS,
        throwOnRequestTimeout: true,
        logger: SILENT,
      },
    }
  }
}
