import type { AccountProbes, CallLimits, CloudAccess } from '../cloud.ts'
import { isCloudError } from '../cloud-error.ts'
import { accountOfArn } from './arn.ts'
import { assumeRole } from './assume-role.ts'
import { callerIdentity } from './caller-identity.ts'
import type { AwsDependencies } from './calls.ts'
import type { AwsClients, Ssm } from './clients.ts'
import { otherExternalId } from './other-external-id.ts'
import type { Sessions } from './sessions.ts'
import type { SsmCalls } from './ssm-calls.ts'

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
export function createAccountProbes(options: AccountProbesOptions): AccountProbes {
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
