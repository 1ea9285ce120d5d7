import type { CloudMetrics } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { SecretText } from '../../lib/secret-text.ts'
import { CloudError } from '../cloud-error.ts'
import type { RegistryLogin, RegistryTokens } from '../registry-tokens.ts'
import { runCall } from './calls.ts'
import { AwsClients, type Credentials } from './clients.ts'
import { withIdentity } from './identified.ts'

const OPERATION = 'ecr:GetAuthorizationToken'

export type RegistryTokensOptions = {
  clock: Clock
  random: Random
  metrics: CloudMetrics
  /** As `davit/0.1.0`. */
  userAgent: string
  /** Instead of the identity of this process. */
  credentials?: Credentials
}

/** Logins of ECR, with the identity of this process unless another one is given. */
export function createRegistryTokens(options: RegistryTokensOptions): RegistryTokens & { close(): void } {
  const clients = new AwsClients(options.userAgent, options.credentials)
  return {
    token: (registry, limits = {}) =>
      runCall(options, {
        operation: OPERATION,
        limits,
        connect: async () => await withIdentity(await clients.ownEcr(registry.region)),
        send: async ({ module, client }, signal) => {
          const command = new module.GetAuthorizationTokenCommand({})
          const answer = await clients.timed(client, () => client.send(command, { abortSignal: signal }))
          const [data] = answer.authorizationData ?? []
          return loginOf(data?.authorizationToken, data?.expiresAt)
        },
      }),
    close: () => clients.close(),
  }
}

/** The token is `user:password` in base64, and the password may have colons. */
function loginOf(token: string | undefined, expiresAt: Date | undefined): RegistryLogin {
  const text = Buffer.from(token ?? '', 'base64').toString('utf8')
  const colon = text.indexOf(':')
  if (colon < 1 || colon === text.length - 1 || !expiresAt) {
    throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no token.', { operation: OPERATION })
  }
  const password = new SecretText(text.slice(colon + 1))
  return { username: text.slice(0, colon), password, expiresAt: expiresAt.getTime() }
}
