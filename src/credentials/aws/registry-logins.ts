import type { BoxCredential } from '../../apis/box-credentials.ts'
import type { Clock, Random } from '../../lib/clock.ts'
import type { CloudMetrics } from '../../lib/metrics.ts'
import { SecretText } from '../../lib/redact.ts'
import { sleep } from '../../lib/sleep.ts'
import {
  type BoxLogin,
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
import { AwsClients, type Credentials } from './clients.ts'
import { withIdentity } from './errors.ts'

const OPERATION = 'ssm:GetParameter'
const LAG_MS = 10_000
const AGAIN_MS = 1000

export type ParameterReaderOptions = {
  clock: Clock
  random: Random
  metrics: CloudMetrics
  /** As `davit/0.1.0`. */
  userAgent: string
  /** Instead of the identity of this process. */
  credentials?: Credentials
  /** How long what is not there is waited for: a read may see the state of so long ago. Absent: ten seconds. */
  lagMs?: number
}

/** Reads secrets with the identity of this process: a box's role has the right to, Davit's own has not. */
export function createParameterReader(options: ParameterReaderOptions): ParameterReader & { close(): void } {
  const clients = new AwsClients(options.userAgent, options.credentials)
  return {
    read: (parameter, limits = {}) =>
      readOnceThere(options, clients, { parameter, limits, lagMs: options.lagMs ?? LAG_MS }),
    close: () => clients.close(),
  }
}

type Reading = { parameter: PinnedParameter; limits: CallLimits; lagMs: number }

async function readOnceThere(
  world: AwsDependencies,
  clients: AwsClients,
  reading: Reading,
): Promise<SecretText> {
  const begin = world.clock.monotonic()
  for (;;) {
    try {
      return await read(world, clients, reading)
    } catch (error) {
      const waited = world.clock.monotonic() - begin
      if (!isCloudError(error, 'ParameterNotFound', 'ParameterVersionNotFound') || waited >= reading.lagMs) {
        throw error
      }
    }
    const { signal } = reading.limits
    await sleep(world.clock, AGAIN_MS, signal)
    if (signal?.aborted)
      throw new CloudError('retry', 'Canceled', 'It was given up by who asked for it.', {
        operation: OPERATION,
      })
  }
}

async function read(
  world: AwsDependencies,
  clients: AwsClients,
  { parameter, limits }: Reading,
): Promise<SecretText> {
  const { name, version, region } = parameter
  return await runCall(world, {
    operation: OPERATION,
    limits,
    connect: async () => await withIdentity(await clients.ownSsm(region)),
    send: async ({ module, client }, signal) => {
      const command = new module.GetParameterCommand({ Name: `${name}:${version}`, WithDecryption: true })
      const { Parameter } = await clients.timed(client, () => client.send(command, { abortSignal: signal }))
      if (Parameter?.Value === undefined || Parameter.Version !== version)
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has not the value of that version.')
      if (Parameter.Type !== 'SecureString')
        throw new CloudError(
          'spec',
          'UnsupportedParameterType',
          `It is a ${Parameter.Type}, no SecureString.`,
        )
      return new SecretText(Parameter.Value)
    },
  })
}

const OPERATIONOfRegistryTokens = 'ecr:GetAuthorizationToken'

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
        operation: OPERATIONOfRegistryTokens,
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
    throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no token.', {
      operation: OPERATIONOfRegistryTokens,
    })
  }
  const password = new SecretText(text.slice(colon + 1))
  return { username: text.slice(0, colon), password, expiresAt: expiresAt.getTime() }
}

/** The shortest life that STS gives: what is fetched with it is fetched at once. */
const SESSION_SECONDS = 900

export type PodRoleRequest = PodRole & { region: string; sessionName: string }

/** A session of a pod's role, for which its service account token speaks: this machine needs no identity. Throws CloudError. */
async function assumePodRole(
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

export type BoxLoginsOptions = AwsDependencies & {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** The account and region of a host of ECR. */
  registryOf(host: string): CloudRegistry
  /** How a session of a pod of this namespace is called. */
  sessionName(namespace: string): string
}

/** Logins for a box, fetched when they are asked for and kept nowhere. */
export function createBoxLogins(options: BoxLoginsOptions): BoxLogins {
  return {
    async login(credential, pod) {
      const credentials = pod && (await sessionOf(options, credential, pod))
      const given = { ...options, ...(credentials && { credentials }) }
      return credential.type === 'ecr'
        ? await ecrLogin(given, options.registryOf(credential.registry))
        : await tokenLogin(given, credential)
    },
  }
}

type Given = BoxLoginsOptions & { credentials?: Credentials }

async function sessionOf(
  options: BoxLoginsOptions,
  credential: BoxCredential,
  pod: PodRole,
): Promise<Credentials> {
  const region =
    credential.type === 'ecr' ? options.registryOf(credential.registry).region : credential.parameter.region
  const clients = new AwsClients(options.userAgent)
  try {
    const sessionName = options.sessionName(pod.namespace)
    return await assumePodRole({ ...options, clients }, { ...pod, region, sessionName })
  } finally {
    clients.close()
  }
}

async function ecrLogin(options: Given, registry: CloudRegistry): Promise<BoxLogin> {
  const tokens = createRegistryTokens(options)
  try {
    return await tokens.token(registry)
  } finally {
    tokens.close()
  }
}

async function tokenLogin(
  options: Given,
  { username, parameter }: Extract<BoxCredential, { type: 'token' }>,
): Promise<BoxLogin> {
  // The bake has read it, so what is not there has gone.
  const reader = createParameterReader({ ...options, lagMs: 0 })
  try {
    return { username, password: await reader.read(parameter) }
  } finally {
    reader.close()
  }
}
