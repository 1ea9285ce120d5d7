/** A registry for tests: the real one, with TLS, one way of logging in, and whatever goes wrong. */

import { startDebianRegistry } from '../../../playground/bakes/debian-registry.ts'
import type { Image, ImageIndex } from '../../../playground/bakes/images.ts'
import { push } from '../../../playground/bakes/push.ts'
import { createTestAuthority, type TestAuthority } from '../tls.ts'
import { type Front, startFront } from './front.ts'
import { type Account, PUSHER, TokenService } from './token-service.ts'

export type TestRegistryOptions = {
  /** Basic by htpasswd, Bearer by a service for tokens, or nobody has to log in. */
  auth: 'basic' | 'bearer' | 'none'
  accounts?: Readonly<Record<string, Account>>
  /** Bearer: repositories that anybody may pull from. */
  open?: readonly string[]
  /** Names and addresses of the certificate. */
  names?: readonly string[]
  /** Of the certificate; negative: expired so long ago. */
  days?: number
  authority?: TestAuthority
  /** Where it listens, and the host that images then have. */
  listen?: { host: string; port: number; name: string }
}

export type TestRegistry = {
  /** As images name it: `localhost:5000`. */
  host: string
  /** PEM of who has signed its certificate. */
  ca: string
  front: Front
  tokens: TokenService
  /** @returns the digest under which it can be pulled */
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
  front.challenge = (header) => header.replace(PLACE, `https://${host}/token`)
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

/** Stands in the registry's settings for the place of the front, which is not known yet. */
const PLACE = 'https://realm.invalid/token'

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
        : { kind: 'token', realm: PLACE, service: SERVICE, issuer: ISSUER, ca },
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
