/** A token service like those of registries with Bearer challenges. */
import { createPrivateKey, randomUUID, sign, X509Certificate } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Certificate } from '../tls.ts'

export type Account = {
  password: string
  /** Repositories that it may pull from; `*` is all. Only `pusher` may push. */
  pulls: readonly string[]
  /** Whether its password has expired, which some services report as an empty grant. */
  expired?: boolean
}

export type TokenServiceOptions = {
  service: string
  issuer: string
  certificate: Certificate
  accounts: Readonly<Record<string, Account>>
  /** Repositories with public pulls. */
  open?: readonly string[]
}

/** The answer of a faulty service. */
export type TokenTrouble =
  | { status: number; body: string; headers?: Readonly<Record<string, string>> }
  | { location: string }

export type TokenRequest = { user: string | undefined; scope: string; account: string | undefined }

const TOKEN_SECONDS = 300

export class TokenService {
  /** Absent: no fault. */
  trouble: TokenTrouble | undefined
  /** Lifetime of tokens in seconds; negative: they are issued expired. */
  tokenSeconds = TOKEN_SECONDS
  /** Whether all grants are empty, with status 200. */
  grantsNothing = false
  readonly requests: TokenRequest[] = []
  readonly #options: TokenServiceOptions

  constructor(options: TokenServiceOptions) {
    this.#options = options
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    // Some clients, such as containerd, first try OAuth 2, which few services support, and then the common way.
    if (request.method !== 'GET') {
      response.writeHead(405, { allow: 'GET' }).end()
      return
    }
    const query = new URL(request.url ?? '/', 'https://localhost').searchParams
    const login = loginOf(request)
    this.requests.push({
      user: login?.name,
      scope: query.get('scope') ?? '',
      account: query.get('account') ?? undefined,
    })
    if (this.trouble && 'location' in this.trouble) {
      response.writeHead(307, { location: this.trouble.location }).end()
      return
    }
    if (this.trouble) {
      response.writeHead(this.trouble.status, this.trouble.headers).end(this.trouble.body)
      return
    }
    const account = login && this.#options.accounts[login.name]
    if (login && account?.password !== login.password) {
      const errors = [{ code: 'UNAUTHORIZED', message: 'incorrect username or password' }]
      response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
      return
    }
    const access = this.#accessOf(login?.name, account, query.getAll('scope'))
    const body = {
      token: this.#token(login?.name ?? '', access),
      expires_in: Math.max(60, this.tokenSeconds),
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  /** Issues a token for one repository without any checks. */
  issue(subject: string, name: string, actions: readonly string[]): string {
    return this.#token(subject, [{ type: 'repository', name, actions }])
  }

  #accessOf(name: string | undefined, account: Account | undefined, scopes: readonly string[]) {
    if (this.grantsNothing || account?.expired) return []
    return scopes.flatMap((scope) => {
      const [type, repository = '', actions = ''] = scope.split(':')
      const wanted = actions.split(',').filter((action) => this.#may(action, repository, name, account))
      return type === 'repository' && wanted.length > 0 ? [{ type, name: repository, actions: wanted }] : []
    })
  }

  #may(action: string, repository: string, name: string | undefined, account: Account | undefined): boolean {
    if (name === PUSHER) return true
    if (action !== 'pull') return false
    const pulls = [...(account?.pulls ?? []), ...(this.#options.open ?? [])]
    return pulls.includes('*') || pulls.includes(repository)
  }

  #token(subject: string, access: unknown): string {
    const { certificate, issuer, service } = this.#options
    const now = Math.floor(Date.now() / 1000)
    const chain = [new X509Certificate(certificate.cert).raw.toString('base64')]
    const head = { typ: 'JWT', alg: 'ES256', x5c: chain }
    const claims = {
      iss: issuer,
      sub: subject,
      aud: service,
      exp: now + this.tokenSeconds,
      nbf: now - 600,
      iat: now - 600,
      jti: randomUUID(),
      access,
    }
    const signed = [head, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.')
    const key = { key: createPrivateKey(certificate.key), dsaEncoding: 'ieee-p1363' as const }
    return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`
  }
}

/** The account for pushes of tests. */
export const PUSHER = 'pusher'

function loginOf({ headers }: IncomingMessage): { name: string; password: string } | undefined {
  const text = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1]
  if (text === undefined) return undefined
  const [name = '', ...rest] = Buffer.from(text, 'base64').toString('utf8').split(':')
  return { name, password: rest.join(':') }
}
