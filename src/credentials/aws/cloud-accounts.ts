import type { Random } from '../../lib/clock.ts'
import {
  type AccountProbes,
  type CallLimits,
  type CloudAccess,
  isCloudError,
  type ParameterListing,
  type ParameterStore,
} from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import { AwsClients, type Ssm } from './clients.ts'
import {
  accountOfArn,
  createParameterListing,
  createParameterStore,
  type RateLimiterFor,
  SsmCalls,
} from './parameter-store.ts'
import { assumeRole, ownIdentity, type SessionRules, Sessions } from './sessions.ts'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567'

/**
 * An external id that is not the given one and yet like it: the same as far as its last dash, then as long. A role that accepts
 * whatever begins as Davit's ids do would let every other organization in, and is found by it.
 */
export function otherExternalId(externalId: string, random: Random): string {
  const kept = externalId.slice(0, externalId.lastIndexOf('-') + 1)
  const bytes = random.bytes(externalId.length - kept.length)
  const chosen = Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('')
  const own = externalId.slice(kept.length)
  const letters = own === own.toUpperCase() ? chosen.toUpperCase() : chosen
  return letters === own ? `${kept}${letters}${LETTERS[0]}` : `${kept}${letters}`
}

/** ARN of the identity of this process. Throws CloudError. */
async function callerIdentity(
  world: AwsDependencies & { clients: AwsClients },
  region: string,
  limits: CallLimits,
): Promise<{ arn: string }> {
  const { clients } = world
  return await runCall(world, {
    operation: 'sts:GetCallerIdentity',
    limits,
    connect: () => ownIdentity(clients, region),
    send: async ({ module, client }, abortSignal) => {
      const command = new module.GetCallerIdentityCommand({})
      const { Arn } = await clients.timed(client, () => client.send(command, { abortSignal }))
      return { arn: Arn ?? '' }
    },
  })
}

export type AccountProbesOptions = {
  world: AwsDependencies
  clients: AwsClients
  sessions: Sessions
  calls: SsmCalls
}

type Read = (ssm: Ssm, name: string, signal: AbortSignal) => Promise<unknown>

/**
 * The four ways to get at a value. Each is allowed or refused for itself; the last one by the path above the name. None asks for
 * the value in clear: a key that refuses today would hide a role that could read tomorrow, and Davit never decrypts anything.
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

/** Tries of what a role lets Davit do. */
function createAccountProbes(options: AccountProbesOptions): AccountProbes {
  return {
    self: (region, limits = {}) =>
      callerIdentity({ ...options.world, clients: options.clients }, region, limits),
    async identify(access, limits = {}) {
      const { arn } = await options.sessions.renew(access, 'write', limits)
      return { account: accountOfArn(arn), arn }
    },
    async readable(access, name, limits) {
      const operations: string[] = []
      let refusal: string | undefined
      for (const [operation, read] of Object.entries(READS)) {
        const code = await refusalOf(options.calls, access, { operation, read, name, limits })
        if (code === undefined) operations.push(operation)
        refusal ??= code
      }
      return { operations, ...(refusal === undefined ? {} : { code: refusal }) }
    },
    refusesOtherId: (access, limits = {}) => refusesOtherId(options, access, limits),
  }
}

/** The code with which it was refused; undefined where it was not. */
async function refusalOf(
  calls: SsmCalls,
  access: CloudAccess,
  probe: { operation: string; read: Read; name: string; limits: CallLimits | undefined },
): Promise<string | undefined> {
  const { operation, limits } = probe
  try {
    // What is read is the probe's own value; it is dropped here all the same.
    await calls.run(access, {
      operation,
      purpose: 'probe',
      limits,
      send: async (ssm, signal) => void (await probe.read(ssm, probe.name, signal)),
    })
    return undefined
  } catch (error) {
    // Rights are looked at first: who is told that a parameter is not there could have read it.
    if (isCloudError(error) && error.remedy === 'gone') return undefined
    if (isCloudError(error, ...DENIED) && error.operation === operation) return error.code
    throw error
  }
}

async function refusesOtherId(
  { world, clients, sessions }: AccountProbesOptions,
  access: CloudAccess,
  limits: CallLimits,
): Promise<{ refused: boolean; code?: string }> {
  const request = sessions.requestFor(access, 'write')
  const externalId = otherExternalId(request.externalId, world.random)
  try {
    await assumeRole({ ...world, clients }, { ...request, externalId, seconds: SHORT_SECONDS }, limits)
    return { refused: false }
  } catch (error) {
    if (isCloudError(error, ...DENIED)) return { refused: true, code: error.code }
    throw error
  }
}

const DENIED = ['AccessDenied', 'AccessDeniedException']
const SHORT_SECONDS = 900

export type CloudAccountsOptions = AwsDependencies & {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** On what terms Davit assumes an organization's role. */
  sessionRules: SessionRules
  /** Turns of an account and region for writes, and for listings. */
  writeTurns: RateLimiterFor
  listTurns: RateLimiterFor
  /** Default 3,600, the most that a role can have which is itself assumed by a role. */
  sessionSeconds?: number
  maxSessions?: number
}

export type CloudAccounts = ParameterStore & ParameterListing & AccountProbes & { close(): void }

const SESSION_SECONDS = 3600
const MAX_SESSIONS = 2000

/** The accounts of organizations at AWS. Nothing of the SDK is loaded before the first call. */
export function createCloudAccounts(options: CloudAccountsOptions): CloudAccounts {
  const { clock, random, metrics, writeTurns, listTurns } = options
  const world = { clock, random, metrics }
  const clients = new AwsClients(options.userAgent)
  const sessions = new Sessions({
    ...world,
    clients,
    rules: options.sessionRules,
    sessionSeconds: options.sessionSeconds ?? SESSION_SECONDS,
    maxSessions: options.maxSessions ?? MAX_SESSIONS,
  })
  const calls = new SsmCalls({ world, clients, sessions })
  const listing = createParameterListing({ calls, listTurns })
  return {
    ...createParameterStore({ calls, tagsOf: listing.tagsOf, writeTurns, random }),
    ...listing,
    ...createAccountProbes({ world, clients, sessions, calls }),
    close: () => clients.close(),
  }
}
