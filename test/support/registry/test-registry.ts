/** A registry for tests: the real one, with TLS, one way to log in, and scripted faults. */

import { startDebianRegistry } from '../../../playground/bakes/debian-registry.ts'
import type { Image, ImageIndex } from '../../../playground/bakes/images.ts'
import { push } from '../../../playground/bakes/push.ts'
import { createTestAuthority, type TestAuthority } from '../tls.ts'
import { type Front, startFront } from './front.ts'
import { type Account, PUSHER, TokenService } from './token-service.ts'

export type TestRegistryOptions = {
  /** Basic through htpasswd, Bearer through a token service, or no login. */
  auth: 'basic' | 'bearer' | 'none'
  accounts?: Readonly<Record<string, Account>>
  /** For Bearer: repositories with public pulls. */
  open?: readonly string[]
  /** Names and addresses of the certificate. */
  names?: readonly string[]
  /** Validity of the certificate; negative: expired this long ago. */
  days?: number
  authority?: TestAuthority
  /** Address to listen on, and the resulting host of images. */
  listen?: { host: string; port: number; name: string }
}

export type TestRegistry = {
  /** The host in image names: `localhost:5000`. */
  host: string
  /** PEM of the authority of its certificate. */
  ca: string
  front: Front
  tokens: TokenService
  /** @returns the digest by which the image can be pulled */
  push(repository: string, tag: string, image: Image | ImageIndex): Promise<string>
  stop(): Promise<void>
}

const SERVICE = 'registry of the tests'
const ISSUER = 'tokens of the tests'
const PUSHER_PASSWORD = 'pushes-for-the-tests'

export async function startTestRegistry(options: TestRegistryOptions): Promise<TestRegistry> {
  const authority = options.authority ?? createTestAuthority()
  const accounts = { ...options.accounts, [PUSHER]: { password: PUSHER_PASSWORD, pulls: ['*'] } }
  const tokens = new TokenService({
    service: SERVICE,
    issuer: ISSUER,
    certificate: authority.issue(['tokens']),
    accounts,
    ...(options.open && { open: options.open }),
  })
  const registry = await startBehind(options, accounts, authority.ca)
  const front = await startFront({
    certificate: authority.issue(options.names ?? ['localhost', '127.0.0.1'], options.days),
    upstream: registry.port,
    own: { '/token': (request, response) => tokens.answer(request, response) },
    ...(options.listen && { host: options.listen.host, port: options.listen.port }),
  }).catch(async (error: unknown) => {
    await registry.stop()
    throw error
  })
  const host = options.listen?.name ?? `localhost:${front.port}`
  front.challenge = (header) => header.replace(REALM_PLACEHOLDER, `https://${host}/token`)
  const authorization = (repository: string) => pusherAuthorization(options.auth, tokens, repository)
  return {
    host,
    ca: authority.ca,
    front,
    tokens,
    push: (repository, tag, image) =>
      push({ url: `http://127.0.0.1:${registry.port}`, authorization }, repository, tag, image),
    async stop() {
      await front.stop()
      await registry.stop()
    },
  }
}

/** Placeholder in the registry's settings for the address of the proxy, which is not known yet. */
const REALM_PLACEHOLDER = 'https://realm.invalid/token'

async function startBehind(
  { auth }: TestRegistryOptions,
  accounts: Readonly<Record<string, Account>>,
  ca: string,
) {
  if (auth === 'none') return await startDebianRegistry()
  const users = Object.fromEntries(Object.entries(accounts).map(([name, { password }]) => [name, password]))
  return await startDebianRegistry({
    auth:
      auth === 'basic'
        ? { kind: 'basic', users }
        : { kind: 'token', realm: REALM_PLACEHOLDER, service: SERVICE, issuer: ISSUER, ca },
  })
}

function pusherAuthorization(
  auth: TestRegistryOptions['auth'],
  tokens: TokenService,
  repository: string,
): string {
  if (auth === 'bearer') return `Bearer ${tokens.issue(PUSHER, repository, ['pull', 'push'])}`
  return `Basic ${Buffer.from(`${PUSHER}:${PUSHER_PASSWORD}`).toString('base64')}`
}
