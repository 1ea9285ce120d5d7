/** What boxes need from AWS, fetched with their own role and not kept: secrets, logins of ECR, and sessions of a pod's role. */
import type { Parameter } from '@aws-sdk/client-ssm'
import { SecretText } from '../../lib/redact.ts'
import { sleep } from '../../lib/time.ts'
import {
  type BoxLogins,
  type CallLimits,
  CloudError,
  type CloudRegistry,
  isCloudError,
  type ParameterReader,
  type PinnedParameter,
  type PodRole,
  type RegistryLogin,
  type RegistryTokens,
} from '../cloud.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import { AwsClients, type Credentials, credentialsIn } from './clients.ts'
import { withIdentity } from './errors.ts'

const GET_PARAMETER = 'ssm:GetParameter'
const LAG_MS = 10_000
const AGAIN_MS = 1000

export type OwnIdentityOptions = AwsDependencies & {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** Instead of the identity of this process. */
  credentials?: Credentials | undefined
}

/**
 * Reads secrets with the identity of this process: a box's role may read them, Davit's own may not.
 * @param lagMs how long to retry a parameter that is not there yet, since a read may be that far behind
 */
export function createParameterReader(
  options: OwnIdentityOptions & { lagMs?: number },
): ParameterReader & { close(): void } {
  const { clock, lagMs = LAG_MS } = options
  const clients = new AwsClients(options.userAgent, options.credentials)
  const read = ({ name, version, region }: PinnedParameter, limits: CallLimits) =>
    runCall(options, {
      operation: GET_PARAMETER,
      limits,
      connect: async () => await withIdentity(await clients.ownSsm(region)),
      send: async ({ module, client }, signal) => {
        const command = new module.GetParameterCommand({ Name: `${name}:${version}`, WithDecryption: true })
        const { Parameter } = await clients.timed(client, () => client.send(command, { abortSignal: signal }))
        return secretIn(Parameter, version)
      },
    })
  return {
    async read(parameter, limits = {}) {
      const begin = clock.monotonic()
      for (;;) {
        try {
          return await read(parameter, limits)
        } catch (error) {
          const isMissing = isCloudError(error, 'ParameterNotFound', 'ParameterVersionNotFound')
          if (!isMissing || clock.monotonic() - begin >= lagMs) throw error
        }
        await sleep(clock, AGAIN_MS, limits.signal)
        if (limits.signal?.aborted)
          throw new CloudError('retry', 'Canceled', 'Davit canceled the call to AWS before it completed.', {
            operation: GET_PARAMETER,
          })
      }
    },
    close: () => clients.close(),
  }
}

/** @throws CloudError if it is another version, or no SecureString */
function secretIn(found: Parameter | undefined, version: number): SecretText {
  if (found?.Value === undefined || found.Version !== version)
    throw new CloudError(
      'retry',
      'UnreadableResponse',
      'The response does not contain the requested version of the parameter.',
    )
  if (found.Type !== 'SecureString')
    throw new CloudError(
      'spec',
      'UnsupportedParameterType',
      `The parameter is a ${found.Type}, not a SecureString.`,
    )
  return new SecretText(found.Value)
}

const GET_TOKEN = 'ecr:GetAuthorizationToken'

/** Logins of ECR. */
export function createRegistryTokens(options: OwnIdentityOptions): RegistryTokens & { close(): void } {
  const clients = new AwsClients(options.userAgent, options.credentials)
  return {
    token: (registry, limits = {}) =>
      runCall(options, {
        operation: GET_TOKEN,
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

/** The token is `user:password` in base64; the password may have colons. */
function loginOf(token: string | undefined, expiresAt: Date | undefined): RegistryLogin {
  const text = Buffer.from(token ?? '', 'base64').toString('utf8')
  const colon = text.indexOf(':')
  if (colon < 1 || colon === text.length - 1 || !expiresAt) {
    throw new CloudError('retry', 'UnreadableResponse', 'The response does not contain a token.', {
      operation: GET_TOKEN,
    })
  }
  const password = new SecretText(text.slice(colon + 1))
  return { username: text.slice(0, colon), password, expiresAt: expiresAt.getTime() }
}

/** The shortest lifetime that STS allows: the session is used at once. */
const SESSION_SECONDS = 900

/** A session of a pod's role, by its service account token: this machine needs no identity. @throws CloudError */
async function assumePodRole(
  dependencies: AwsDependencies,
  clients: AwsClients,
  { roleArn, token }: PodRole,
  region: string,
  sessionName: string,
): Promise<Credentials> {
  const operation = 'sts:AssumeRoleWithWebIdentity'
  return await runCall(dependencies, {
    operation,
    limits: {},
    connect: () => clients.ownSts(region),
    send: async ({ module, client }, signal) => {
      const command = new module.AssumeRoleWithWebIdentityCommand({
        RoleArn: roleArn,
        RoleSessionName: sessionName,
        WebIdentityToken: token.reveal(),
        DurationSeconds: SESSION_SECONDS,
      })
      const { Credentials: given } = await clients.timed(client, () =>
        client.send(command, { abortSignal: signal }),
      )
      return credentialsIn(given, operation)
    },
    secrets: () => [token.reveal()],
  })
}

export type BoxLoginsOptions = AwsDependencies & {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** The account and region of a host of ECR. */
  registryOf(host: string): CloudRegistry
  /** Session name for pods of a namespace. */
  sessionName(namespace: string): string
}

export function createBoxLogins(options: BoxLoginsOptions): BoxLogins {
  return {
    async login(credential, pod) {
      if (credential.type === 'ecr') {
        const registry = options.registryOf(credential.registry)
        const credentials = pod && (await podSession(options, pod, registry.region))
        return await closing(createRegistryTokens({ ...options, credentials }), (tokens) =>
          tokens.token(registry),
        )
      }
      const { username, parameter } = credential
      const credentials = pod && (await podSession(options, pod, parameter.region))
      // The bake has read it, so a missing parameter is gone.
      return await closing(createParameterReader({ ...options, credentials, lagMs: 0 }), async (reader) => ({
        username,
        password: await reader.read(parameter),
      }))
    },
  }
}

async function podSession(options: BoxLoginsOptions, pod: PodRole, region: string): Promise<Credentials> {
  const name = options.sessionName(pod.namespace)
  return await closing(new AwsClients(options.userAgent), (clients) =>
    assumePodRole(options, clients, pod, region, name),
  )
}

/** The result of `use`; what it used is closed then. */
async function closing<R extends { close(): void }, T>(used: R, use: (used: R) => Promise<T>): Promise<T> {
  try {
    return await use(used)
  } finally {
    used.close()
  }
}
