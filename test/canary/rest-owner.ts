/** An owner who saves secrets by REST, while REST servers die; every answer is kept. */
import { setTimeout as sleep } from 'node:timers/promises'

export type RestOwnerOptions = {
  baseUrl: string
  /** By organization. */
  keys: ReadonlyMap<string, string>
  /** Called with each answer, with status and headers. */
  heard: (answer: string) => void
}

type Asked = {
  method: string
  path: string
  body?: string | undefined
  headers?: Record<string, string>
}
type Heard = { status: number; text: string }
/** `why` is the last answer of those that were not as wanted: its status and its code. */
export type Done = { done: true; id: string } | { done: false; why: string }

/** A killed REST server may be away for half a minute on a busy machine. */
const PATIENCE_MS = 240_000
const PAUSE_MS = 500
const LIMIT_MS = 20_000

export class RestOwner {
  readonly #options: RestOwnerOptions
  #keys = 0

  constructor(options: RestOwnerOptions) {
    this.#options = options
  }

  /** Not done if it was rejected, or there was no answer for long. */
  async create(organization: string, secret: string): Promise<Done> {
    const draft = { type: 'token', label: 'canary', registry: 'ghcr.io', username: 'bot', secret }
    const heard = await this.#untilDone(organization, {
      method: 'POST',
      path: '/registry-credentials',
      body: JSON.stringify(draft),
    })
    if (heard.status !== 201) return { done: false, why: `POST: ${wordsOf(heard)}` }
    return { done: true, id: (JSON.parse(heard.text) as { id: string }).id }
  }

  async rotate(organization: string, id: string, secret: string): Promise<Done> {
    const heard = await this.#untilDone(organization, {
      method: 'PATCH',
      path: `/registry-credentials/${id}`,
      body: JSON.stringify({ secret }),
    })
    return heard.status === 200 ? { done: true, id } : { done: false, why: `PATCH: ${wordsOf(heard)}` }
  }

  async remove(organization: string, id: string): Promise<boolean> {
    const path = `/registry-credentials/${id}`
    const { status } = await this.#untilDone(organization, { method: 'DELETE', path })
    return status === 204 || status === 404
  }

  /** Everything that a client does wrong with a secret. */
  async misuse(organization: string, secret: string): Promise<void> {
    const path = '/registry-credentials'
    const draft = { type: 'token', label: 'canary', registry: 'ghcr.io', username: 'bot' }
    const bodies = [
      JSON.stringify({ ...draft, secret }),
      JSON.stringify({ ...draft, type: 'ecr', secret }),
      JSON.stringify({ ...draft, secret: { value: secret } }),
      JSON.stringify({ ...draft, secret: [secret] }),
      JSON.stringify({ ...draft, password: secret }),
      JSON.stringify({ ...draft, [secret]: 'secret' }),
      JSON.stringify({ ...draft, registry: secret, secret }),
      JSON.stringify({ ...draft, type: secret, secret }),
      JSON.stringify({ ...draft, label: secret.repeat(4) }),
      JSON.stringify(secret),
      `${JSON.stringify({ ...draft, secret }).slice(0, -1)},`,
      `{"secret":${JSON.stringify(secret)}x}`,
      `{"secret":"${secret}`,
      secret,
    ]
    for (const body of bodies) await this.#tell(organization, { method: 'POST', path, body })
    const body = JSON.stringify({ secret })
    await this.#tell(organization, { method: 'PATCH', path: `${path}/rc_absent`, body })
    await this.#tell(organization, { method: 'PUT', path: '/secrets-settings', body })
    await this.#tell(organization, {
      method: 'POST',
      path,
      body,
      headers: { 'content-type': 'text/plain' },
    })
    const inPath = encodeURIComponent(secret).slice(0, 2000)
    await this.#tell(organization, { method: 'GET', path: `${path}?secret=${inPath}` })
    await this.#tell(organization, { method: 'GET', path: `${path}/${inPath}` })
    const inHeader = Buffer.from(secret).toString('base64').slice(0, 200)
    await this.#tell(organization, {
      method: 'POST',
      path,
      body: JSON.stringify(draft),
      headers: { 'idempotency-key': inHeader },
    })
  }

  /** An answer of another server is kept like the REST server's. */
  async elsewhere(url: string): Promise<void> {
    const answer = await fetch(url)
    this.#options.heard(await answer.text())
  }

  /** With one key for all tries, so that it is done once. */
  async #untilDone(organization: string, asked: Asked): Promise<Heard> {
    this.#keys += 1
    const headers = asked.method === 'DELETE' ? {} : { 'idempotency-key': `canary-${this.#keys}` }
    let last: Heard = { status: 0, text: '' }
    const until = performance.now() + PATIENCE_MS
    while (performance.now() < until) {
      last = await this.#tell(organization, { ...asked, headers })
      if (last.status !== 0 && last.status < 500 && last.status !== 409) return last
      await sleep(PAUSE_MS)
    }
    return last
  }

  async #tell(organization: string, { method, path, body, headers }: Asked): Promise<Heard> {
    const { baseUrl, keys, heard } = this.#options
    try {
      const answer = await fetch(`${baseUrl}/organizations/${organization}${path}`, {
        method,
        headers: {
          authorization: keys.get(organization) ?? '',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body }),
        signal: AbortSignal.timeout(LIMIT_MS),
      })
      const text = await answer.text()
      heard(`${answer.status} ${JSON.stringify([...answer.headers])}\n${text}`)
      return { status: answer.status, text }
    } catch {
      return { status: 0, text: '' }
    }
  }
}

/** Nothing of a secret is in it. */
function wordsOf({ status, text }: Heard): string {
  if (status === 0) return 'no answer'
  const code = /"code":"([a-z_]+)"/.exec(text)?.[1] ?? ''
  return `${status} ${code}`
}
