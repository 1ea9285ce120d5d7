import type { RateLimiter } from '../../lib/turns.ts'
import type { CallLimits, CloudAccess } from '../cloud.ts'
import { accountOfArn } from './arn.ts'
import type { AssumedRole } from './assume-role.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients, Ssm } from './clients.ts'
import { ReadLagGuard } from './recent-writes.ts'
import type { SessionPurpose } from './session-terms.ts'
import type { Sessions } from './sessions.ts'

/** Turns of one account and region, by a name for these two. */
export type RateLimiterFor = (place: string) => RateLimiter

export type SsmCall<T> = {
  operation: string
  purpose?: SessionPurpose
  limits: CallLimits | undefined
  turns?: RateLimiterFor
  /** Those of one organization that take their turns together; absent: all its other calls. */
  queue?: string
  secrets?: readonly string[]
  isStale?: (code: string) => boolean
  /** @param lost earlier attempts of this call that may have had their effect */
  send(ssm: Ssm, signal: AbortSignal, lost: number): Promise<T>
}

/** Calls of Parameter Store in the session of an organization. */
export class SsmCalls {
  readonly #world: AwsDependencies
  readonly #clients: AwsClients
  readonly #sessions: Sessions
  readonly recent: ReadLagGuard

  constructor(options: { world: AwsDependencies; clients: AwsClients; sessions: Sessions }) {
    this.#world = options.world
    this.#clients = options.clients
    this.#sessions = options.sessions
    this.recent = new ReadLagGuard(options.world.clock)
  }

  async run<T>(access: CloudAccess, call: SsmCall<T>): Promise<T> {
    const { purpose = 'write' } = call
    const place = accountRegionKey(access)
    let role: AssumedRole | undefined
    return await runCall(this.#world, {
      operation: call.operation,
      limits: call.limits ?? {},
      ...(call.turns && { turns: { of: call.turns(place), flow: flowOf(access, call.queue) } }),
      connect: async (signal) => {
        role = await this.#sessions.of(access, purpose, signal)
        return await this.#clients.ssm(access.region, role.credentials)
      },
      send: async (ssm, signal, lost) =>
        await this.#clients.timed(ssm.client, () => call.send(ssm, signal, lost)),
      secrets: () => [...(call.secrets ?? []), ...(role ? [role.credentials.sessionToken] : [])],
      forgetSession: () => {
        if (role) this.#sessions.forget(access, purpose, role)
      },
      ...(call.isStale && { isStale: call.isStale }),
    })
  }
}

function flowOf({ organizationUid }: CloudAccess, queue: string | undefined): string {
  return queue === undefined ? organizationUid : `${organizationUid} ${queue}`
}

/** What rates and writes belong to. Throws CloudError where the role is no ARN. */
export function accountRegionKey(access: CloudAccess): string {
  return `${accountOfArn(access.roleArn)}/${access.region}`
}
