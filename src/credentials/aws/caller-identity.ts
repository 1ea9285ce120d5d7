import type { CallLimits } from '../cloud.ts'
import { ownIdentity } from './assume-role.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients } from './clients.ts'

/** ARN of the identity of this process. Throws CloudError. */
export async function callerIdentity(
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
