import type { BoxCredential } from '../../apis/box-credentials.ts'
import type { BoxLogin, BoxLogins, PodRole } from '../box-logins.ts'
import type { CloudRegistry } from '../registry-tokens.ts'
import type { AwsDependencies } from './calls.ts'
import { AwsClients, type Credentials } from './clients.ts'
import { assumePodRole } from './pod-role.ts'
import { createParameterReader } from './registry-logins.ts'
import { createRegistryTokens } from './registry-tokens.ts'

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
