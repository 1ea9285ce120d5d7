/** The AWS accounts of organizations: Parameter Store, and probes of what a role can do. */
import type { Random } from '../../lib/time.ts'
import { type AccountProbes, type CallLimits, type CloudAccess, isCloudError } from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import { AwsClients, type Ssm } from './clients.ts'
import { AwsParameterStore, accountOfArn, type RateLimiterFor } from './parameter-store.ts'
import { assumeRole, ownIdentity, type SessionRules, Sessions } from './sessions.ts'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567'

/**
 * Another external id like the given one: the same up to the last dash, and equally long. It exposes a role that accepts every id with
 * Davit's prefix, and with that every other organization.
 */
export function otherExternalId(externalId: string, random: Random): string {
  const kept = externalId.slice(0, externalId.lastIndexOf('-') + 1)
  const bytes = random.bytes(externalId.length - kept.length)
  const chosen = Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('')
  const own = externalId.slice(kept.length)
  const letters = own === own.toUpperCase() ? chosen.toUpperCase() : chosen
  return letters === own ? `${kept}${letters}${LETTERS[0]}` : `${kept}${letters}`
}

type Read = (ssm: Ssm, name: string, signal: AbortSignal) => Promise<unknown>

/**
 * The four ways to get a value. Each is authorized separately, the last one on the path above the name. None asks for the value in clear:
 * a KMS key that refuses today would hide a role that can read tomorrow, and Davit never decrypts anything.
 */
const READS: Readonly<Record<string, Read>> = {
  'ssm:GetParameter': ({ module, client }, Name, abortSignal) =>
    client.send(new module.GetParameterCommand({ Name }), { abortSignal }),
  'ssm:GetParameters': ({ module, client }, name, abortSignal) =>
    client.send(new module.GetParametersCommand({ Names: [name] }), { abortSignal }),
  'ssm:GetParameterHistory': ({ module, client }, Name, abortSignal) =>
    client.send(new module.GetParameterHistoryCommand({ Name, MaxResults: 1 }), {
      abortSignal,
    }),
  'ssm:GetParametersByPath': ({ module, client }, name, abortSignal) =>
    client.send(
      new module.GetParametersByPathCommand({
        Path: name.slice(0, name.lastIndexOf('/')),
        MaxResults: 1,
      }),
      { abortSignal },
    ),
}

const DENIED = ['AccessDenied', 'AccessDeniedException']
const SHORT_SECONDS = 900

export type CloudAccountsOptions = AwsDependencies & {
  userAgent: string
  sessionRules: SessionRules
  writeTurns: RateLimiterFor
  listTurns: RateLimiterFor
  /** Default 3,600, the maximum for a role that was assumed by a role. */
  sessionSeconds?: number
  maxSessions?: number
}

const SESSION_SECONDS = 3600
const MAX_SESSIONS = 2000

/** The SDK is not loaded before the first call. */
export class CloudAccounts extends AwsParameterStore implements AccountProbes {
  constructor(options: CloudAccountsOptions) {
    const { userAgent, sessionRules: rules, ...given } = options
    const clients = new AwsClients(userAgent)
    const { sessionSeconds = SESSION_SECONDS, maxSessions = MAX_SESSIONS } = options
    const sessions = new Sessions({ ...given, clients, rules, sessionSeconds, maxSessions })
    super({ ...given, clients, sessions })
  }

  close(): void {
    this.options.clients.close()
  }

  async self(limits: CallLimits = {}): Promise<{ arn: string }> {
    const { clients } = this.options
    return await runCall(this.options, {
      operation: 'sts:GetCallerIdentity',
      limits,
      connect: async () => await ownIdentity(clients, await clients.ownRegion()),
      send: async ({ module, client }, abortSignal) => {
        const command = new module.GetCallerIdentityCommand({})
        const { Arn } = await clients.timed(client, () => client.send(command, { abortSignal }))
        return { arn: Arn ?? '' }
      },
    })
  }

  async identify(access: CloudAccess, limits: CallLimits = {}): Promise<{ account: string; arn: string }> {
    const { arn } = await this.options.sessions.renew(access, 'write', limits)
    return { account: accountOfArn(arn), arn }
  }

  async readable(
    access: CloudAccess,
    name: string,
    limits?: CallLimits,
  ): Promise<{ operations: string[]; code?: string | undefined }> {
    const operations: string[] = []
    let code: string | undefined
    for (const [operation, read] of Object.entries(READS)) {
      // The probe wrote this value itself; even so, nothing that was read from an account is kept.
      const send = async (ssm: Ssm, signal: AbortSignal) => void (await read(ssm, name, signal))
      const refusal = await refusalOf(operation, () =>
        this.run(access, { operation, purpose: 'probe', limits, send }),
      )
      if (refusal === undefined) operations.push(operation)
      code ??= refusal
    }
    return { operations, code }
  }

  async refusesOtherId(
    access: CloudAccess,
    limits: CallLimits = {},
  ): Promise<{ refused: boolean; code?: string }> {
    const { sessions, random } = this.options
    const request = sessions.requestFor(access, 'write')
    const externalId = otherExternalId(request.externalId, random)
    try {
      await assumeRole(this.options, { ...request, externalId, seconds: SHORT_SECONDS }, limits)
      return { refused: false }
    } catch (error) {
      if (isCloudError(error, ...DENIED)) return { refused: true, code: error.code }
      throw error
    }
  }
}

/** The code with which an attempt to read was refused. */
async function refusalOf(operation: string, attempt: () => Promise<void>): Promise<string | undefined> {
  try {
    await attempt()
    return undefined
  } catch (error) {
    // Authorization comes first: a role that gets "not found" could have read it.
    if (isCloudError(error) && error.remedy === 'gone') return undefined
    if (isCloudError(error, ...DENIED) && error.operation === operation) return error.code
    throw error
  }
}
