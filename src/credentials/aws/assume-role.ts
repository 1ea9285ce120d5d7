import type { CallLimits } from '../cloud.ts'
import { CloudError } from '../cloud-error.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients, Credentials, Sts } from './clients.ts'
import { sanitizeMessage } from './error-words.ts'
import type { SessionTerms } from './session-terms.ts'

export type RoleRequest = {
  roleArn: string
  region: string
  externalId: string
  terms: SessionTerms
  /** 900 to 3,600: that much is given to a role that is itself assumed by a role. */
  seconds: number
}

export type AssumedRole = { credentials: Credentials; arn: string }

/** Assumes a role with the identity of this process, at the STS of the region. Throws CloudError. */
export async function assumeRole(
  world: AwsDependencies & { clients: AwsClients },
  request: RoleRequest,
  limits: CallLimits,
): Promise<AssumedRole> {
  const { clients } = world
  return await runCall(world, {
    operation: 'sts:AssumeRole',
    limits,
    connect: () => ownIdentity(clients, request.region),
    send: async ({ module, client }, signal) => {
      const command = new module.AssumeRoleCommand({
        RoleArn: request.roleArn,
        ExternalId: request.externalId,
        RoleSessionName: request.terms.name,
        Policy: request.terms.policy,
        Tags: Object.entries(request.terms.tags).map(([Key, Value]) => ({ Key, Value })),
        DurationSeconds: request.seconds,
      })
      const { Credentials: given, AssumedRoleUser } = await clients.timed(client, () =>
        client.send(command, { abortSignal: signal }),
      )
      const { AccessKeyId, SecretAccessKey, SessionToken } = given ?? {}
      if (!AccessKeyId || !SecretAccessKey || !SessionToken) {
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no credentials.')
      }
      return {
        credentials: {
          accessKeyId: AccessKeyId,
          secretAccessKey: SecretAccessKey,
          sessionToken: SessionToken,
        },
        arn: AssumedRoleUser?.Arn ?? '',
      }
    },
    // The identity of this process has ended or is not accepted: perhaps its environment has a new one by now.
    forgetSession: () => clients.forgetIdentity(request.region),
  })
}

/** A failure to have an identity is Davit's own matter, and must not look like a refusal of the organization's role. */
export async function ownIdentity(clients: AwsClients, region: string): Promise<Sts> {
  const sts = await clients.ownSts(region)
  try {
    await sts.client.config.credentials()
  } catch (error) {
    const words = error instanceof Error ? sanitizeMessage(error.message, []) : ''
    throw new CloudError('retry', 'NoIdentity', `Davit has no identity of its own at AWS: ${words}`, {
      operation: 'sts:AssumeRole',
    })
  }
  return sts
}
