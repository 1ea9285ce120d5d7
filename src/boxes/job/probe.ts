/** What a bake asks before it pulls: the logins of its credentials from AWS, and the manifests from the registries. */
import type { BakeOrder, BakeResult, OrderedCredential } from '../../apis/bake.ts'
import { parseEcrHost } from '../../apis/registry-host.ts'
import {
  CloudError,
  isCloudError,
  type ParameterReader,
  type RegistryTokens,
} from '../../credentials/cloud.ts'
import type { Logger } from '../../lib/log.ts'
import { type Clock, sleep } from '../../lib/time.ts'
import type { BoxStore } from '../layout/store.ts'
import type { FoundManifest, ProbeResult, RegistryLogin, RegistryProbe } from '../registry/outcome.ts'
import type { Platform } from './platform.ts'
import type { SecretRedactor } from './redaction.ts'
import type { ImageCopier } from './skopeo.ts'

type BakeFailure = NonNullable<BakeResult['failure']>

export class BakeFailureError extends Error {
  override readonly name = 'BakeFailureError'
  readonly failure: BakeFailure

  constructor(failure: BakeFailure) {
    super(failure.message)
    this.failure = failure
  }
}

export type BakeDependencies = {
  store: BoxStore
  copier: ImageCopier
  probe: RegistryProbe
  parameters: ParameterReader
  tokens: RegistryTokens
  log: Logger
  clock: Clock
  /** The platform of a box whose template names none. Absent: images are not compared with it. */
  machine?: Platform
}

export type OrderedService = BakeOrder['services'][number]

export type BakeContext = BakeDependencies & {
  order: BakeOrder
  redactor: SecretRedactor
  signal: AbortSignal
}

const DEADLINE_MS = 30_000
/** The SDK's message if AWS sent none. */
const NO_MESSAGE = 'UnknownError'

/** Fetches the login of each credential once per bake. */
export class LoginCache {
  readonly #context: BakeContext
  readonly #logins = new Map<string, RegistryLogin>()

  constructor(context: BakeContext) {
    this.#context = context
  }

  /** Undefined if the service has no credential. @throws BakeFailureError of the step `read-secret` */
  async get({ name, credential }: OrderedService): Promise<RegistryLogin | undefined> {
    if (!credential) return undefined
    const key = `${credential.id} ${credential.registry}`
    const known = this.#logins.get(key)
    if (known) return known
    try {
      const login = await this.#fetch(credential)
      this.#context.redactor.addLogin(login)
      this.#logins.set(key, login)
      return login
    } catch (error) {
      this.#context.signal.throwIfAborted()
      throw readFailure(name, credential, error)
    }
  }

  async #fetch(credential: OrderedCredential): Promise<RegistryLogin> {
    const { log, tokens, parameters, signal } = this.#context
    const limits = { signal, deadlineMs: DEADLINE_MS }
    if (credential.type === 'ecr') {
      const { ecr, problem } = parseEcrHost(credential.registry)
      if (!ecr) throw new CloudError('spec', 'ValidationError', `registry ${problem}`)
      const { username, password, expiresAt } = await tokens.token(ecr, limits)
      log.info('ecr_login_fetched', 'fetched ECR login', {
        credential: credential.id,
        region: ecr.region,
        until: new Date(expiresAt).toISOString(),
      })
      return { username, password }
    }
    const { username, parameter } = credential
    if (username === undefined || parameter === undefined)
      throw new CloudError(
        'spec',
        'ValidationError',
        "the bake was started without the credential's user name or parameter",
      )
    const password = await parameters.read(parameter, limits)
    log.info('secret_read', 'read secret', {
      credential: credential.id,
      name: parameter.name,
      version: parameter.version,
    })
    return { username, password }
  }
}

function readFailure(service: string, { parameter }: OrderedCredential, error: unknown): BakeFailureError {
  if (!isCloudError(error)) throw error
  const about = [error.operation, error.code].filter((part) => part !== '').join(' ')
  const text = error.message === NO_MESSAGE ? '' : error.message
  // AWS does not name a parameter that does not exist.
  const what = text === '' && parameter ? `version ${parameter.version} of ${parameter.name}` : text
  const message = what === '' ? about : `${about}: ${what}`
  return new BakeFailureError({ service, step: 'read-secret', code: 'secret_unreadable', message })
}

/** Transient failures are retried. A rejected login is not: it may lock the account. */
const WAITS_MS = [500, 2000]
const LONGEST_WAIT_MS = 30_000
const TRANSIENT: ReadonlySet<string> = new Set(['refused', 'reset', 'timeout'])

export async function probeImage(
  context: BakeContext,
  image: Parameters<RegistryProbe['manifest']>[0],
  login: RegistryLogin | undefined,
): Promise<{ result: ProbeResult; at: number }> {
  const { probe, clock, signal } = context
  for (const wait of [...WAITS_MS, undefined]) {
    const result = await probe.manifest(image, login, { signal })
    const pause = wait === undefined ? undefined : retryWait(result, wait)
    if (pause === undefined) return { result, at: clock.now() }
    await sleep(clock, pause, signal)
    signal.throwIfAborted()
  }
  throw new Error('unreachable')
}

/** Undefined if a retry would not help or would have to wait too long. */
function retryWait(result: ProbeResult, wait: number): number | undefined {
  if (result.kind === 'refused' && (result.status === 429 || result.status >= 500)) {
    const pause = Math.max(wait, (result.retryAfter ?? 0) * 1000)
    return pause <= LONGEST_WAIT_MS ? pause : undefined
  }
  if (result.kind !== 'unreachable') return undefined
  const { failure, code } = result
  const isTransient = failure === 'dns' ? code === 'EAI_AGAIN' : TRANSIENT.has(failure)
  return isTransient ? wait : undefined
}

export function isFound(result: ProbeResult): result is FoundManifest {
  return result.kind === 'found'
}
