import type { PodRole } from '../box-logins.ts'
import type { CallLimits } from '../cloud.ts'
import { CloudError } from '../cloud-error.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import type { AwsClients, Credentials } from './clients.ts'

/** The shortest life that STS gives: what is fetched with it is fetched at once. */
const SESSION_SECONDS = 900

export type PodRoleRequest = PodRole & { region: string; sessionName: string }

/** A session of a pod's role, for which its service account token speaks: this machine needs no identity. Throws CloudError. */
export async function assumePodRole(
  world: AwsDependencies & { clients: AwsClients },
  request: PodRoleRequest,
  limits: CallLimits = {},
): Promise<Credentials> {
  const { clients } = world
  const operation = 'sts:AssumeRoleWithWebIdentity'
  return await runCall(world, {
    operation,
    limits,
    connect: () => clients.ownSts(request.region),
    send: async ({ module, client }, signal) => {
      const command = new module.AssumeRoleWithWebIdentityCommand({
        RoleArn: request.roleArn,
        RoleSessionName: request.sessionName,
        WebIdentityToken: request.token.reveal(),
        DurationSeconds: SESSION_SECONDS,
      })
      const { Credentials: given } = await clients.timed(client, () =>
        client.send(command, { abortSignal: signal }),
      )
      const { AccessKeyId, SecretAccessKey, SessionToken } = given ?? {}
      if (!AccessKeyId || !SecretAccessKey || !SessionToken) {
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no credentials.', { operation })
      }
      return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken }
    },
    secrets: () => [request.token.reveal()],
  })
}
