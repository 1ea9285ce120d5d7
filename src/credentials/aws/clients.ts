/** The AWS SDK: loaded on first use, with limits, and without its log. */
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
// Types only: loading the SDK takes 0.1 s and 40 MB, which a process that never calls AWS saves.
import type { ECRClient } from '@aws-sdk/client-ecr'
import type { SSMClient } from '@aws-sdk/client-ssm'
import type { STSClient, Credentials as StsCredentials } from '@aws-sdk/client-sts'
import { CloudError } from '../cloud.ts'

export type Sdk<M, C> = { module: M; client: C }
export type Ssm = Sdk<typeof import('@aws-sdk/client-ssm'), SSMClient>
export type Sts = Sdk<typeof import('@aws-sdk/client-sts'), STSClient>
export type Ecr = Sdk<typeof import('@aws-sdk/client-ecr'), ECRClient>

export type Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken: string }

/** @throws CloudError if STS returned incomplete credentials */
export function credentialsIn(given: StsCredentials | undefined, operation?: string): Credentials {
  const { AccessKeyId, SecretAccessKey, SessionToken } = given ?? {}
  if (AccessKeyId && SecretAccessKey && SessionToken)
    return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken }
  throw new CloudError('retry', 'UnreadableResponse', 'The response does not contain credentials.', {
    operation,
  })
}

const CONNECT_MS = 2000
/** Until the response headers, within the deadline of the call. */
const ANSWER_MS = 5000
const MAX_SOCKETS = 50
const MAX_TOTAL_SOCKETS = 200
const MAX_IDLE_SOCKETS = 10
/** Regions in use at once. */
const MAX_REGIONS = 64

/** For processes that know no region of their own: the region of AWS that every account has. */
const DEFAULT_REGION = 'us-east-1'

/** The SDK's log shows registry tokens in clear text. */
const SILENT = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }

/** Clients of AWS. The SDK resolves endpoints, FIPS and partitions from region and environment; it makes one attempt, and calls.ts retries. */
export class AwsClients {
  readonly #userAgent: string
  readonly #credentials: Credentials | undefined
  readonly #agents: { httpAgent: HttpAgent; httpsAgent: HttpsAgent }
  /**
   * By region: the SDK keeps the identity of this process in the client until it expires. A plain map, since the node helpers load this
   * file at each pull and no package that they can do without.
   */
  readonly #ownSts = new Map<string, STSClient>()
  /** Milliseconds that this machine's clock is behind that of AWS, as the SDK measured. */
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

  /** For one call: clients are cheap, and one that is not kept cannot be confused with another organization's. */
  async ssm(region: string, credentials: Credentials): Promise<Ssm> {
    const module = await import('@aws-sdk/client-ssm')
    return { module, client: new module.SSMClient({ ...this.#common(region), credentials }) }
  }

  /** The region of this process, which the SDK reads from its environment or profile. */
  async ownRegion(): Promise<string> {
    const { STSClient } = await import('@aws-sdk/client-sts')
    try {
      return await new STSClient({ logger: SILENT }).config.region()
    } catch {
      return DEFAULT_REGION
    }
  }

  /** The `own...` clients use the identity of this process. */
  async ownSts(region: string): Promise<Sts> {
    const module = await import('@aws-sdk/client-sts')
    const known = this.#ownSts.get(region)
    if (known) return { module, client: known }
    const client = new module.STSClient(this.#common(region))
    if (this.#ownSts.size >= MAX_REGIONS) this.#ownSts.clear()
    this.#ownSts.set(region, client)
    return { module, client }
  }

  async ownSsm(region: string): Promise<Ssm> {
    const module = await import('@aws-sdk/client-ssm')
    return { module, client: new module.SSMClient(this.#common(region)) }
  }

  async ownEcr(region: string): Promise<Ecr> {
    const module = await import('@aws-sdk/client-ecr')
    return { module, client: new module.ECRClient(this.#common(region)) }
  }

  /** Makes the next call determine the identity again, for this region only: other regions may be in other partitions. */
  forgetIdentity(region: string): void {
    this.#ownSts.delete(region)
  }

  /** Runs `send` and keeps the clock offset that the SDK measured, for clients created later. */
  async timed<T>(client: { config: { systemClockOffset: number } }, send: () => Promise<T>): Promise<T> {
    try {
      return await send()
    } finally {
      this.#clockOffset = client.config.systemClockOffset
    }
  }

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
