import type { BakeOrder, BakeResult, OrderedCredential } from '../../apis/bake.ts'
import { parseEcrHost } from '../../apis/registry-host.ts'
import {
  CloudError,
  isCloudError,
  type ParameterReader,
  type RegistryTokens,
} from '../../credentials/cloud.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { sleep } from '../../lib/sleep.ts'
import type { BoxStore } from '../layout/store.ts'
import type { FoundManifest, ProbeResult, RegistryLogin, RegistryProbe } from '../registry/outcome.ts'
import type { SecretRedactor } from './redaction.ts'
import type { ImageCopier } from './skopeo.ts'

export type BakeFailure = NonNullable<BakeResult['failure']>

/** Why a bake ends without a box. */
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
}

export type OrderedService = BakeOrder['services'][number]

export type BakeContext = BakeDependencies & {
  order: BakeOrder
  redactor: SecretRedactor
  signal: AbortSignal
}

/** The longest that the cloud is waited for. */
const DEADLINE_MS = 30_000
/** Of the SDK, where AWS has said nothing. */
const NO_WORDS = 'UnknownError'

/** Logins of credentials, each fetched once in a bake. */
export class LoginCache {
  readonly #context: BakeContext
  readonly #known = new Map<string, RegistryLogin>()

  constructor(context: BakeContext) {
    this.#context = context
  }

  /** Undefined where the service has no credential. @throws BakeFailureError of the step `read-secret` */
  async get({ name, credential }: OrderedService): Promise<RegistryLogin | undefined> {
    if (!credential) return undefined
    const key = `${credential.id} ${credential.registry}`
    const known = this.#known.get(key)
    if (known) return known
    try {
      const login = await this.#fetch(credential)
      this.#context.redactor.add(login.password)
      this.#known.set(key, login)
      return login
    } catch (error) {
      this.#context.signal.throwIfAborted()
      throw unreadable(name, credential, error)
    }
  }

  async #fetch(credential: OrderedCredential): Promise<RegistryLogin> {
    const { log, tokens, parameters, signal } = this.#context
    const limits = { signal, deadlineMs: DEADLINE_MS }
    if (credential.type === 'ecr') {
      const { ecr, problem } = parseEcrHost(credential.registry)
      if (!ecr) throw new CloudError('spec', 'ValidationError', `registry ${problem}`)
      const { username, password, expiresAt } = await tokens.token(ecr, limits)
      log.info('Got a login of ECR', {
        credential: credential.id,
        region: ecr.region,
        until: new Date(expiresAt).toISOString(),
      })
      return { username, password }
    }
    const { username, parameter } = credential
    if (username === undefined || parameter === undefined)
      throw new CloudError('spec', 'ValidationError', 'the order names neither a user nor a parameter')
    const password = await parameters.read(parameter, limits)
    log.info('Read the secret', {
      credential: credential.id,
      name: parameter.name,
      version: parameter.version,
    })
    return { username, password }
  }
}

/** In the words of the cloud, with its code and what was refused. */
function unreadable(service: string, { parameter }: OrderedCredential, error: unknown): BakeFailureError {
  if (!isCloudError(error)) throw error
  const about = [error.operation, error.code].filter((part) => part !== '').join(' ')
  const words = error.message === NO_WORDS ? '' : error.message
  // Of what is not there AWS tells no name.
  const what = words === '' && parameter ? `version ${parameter.version} of ${parameter.name}` : words
  const message = what === '' ? about : `${about}: ${what}`
  return new BakeFailureError({ service, step: 'read-secret', code: 'secret_unreadable', message })
}

/** What did not work may work in a moment; a login that was refused is not tried again, since it may lock its user out. */
const WAITS_MS = [500, 2000]
const LONGEST_WAIT_MS = 30_000

const TRANSIENT: ReadonlySet<string> = new Set(['refused', 'reset', 'timeout'])

export type Probed = { result: ProbeResult; at: number }

export type ProbedImage = { registry: string; repository: string; reference: string }

/** Asks the registry for the manifest, again where it only was busy. */
export async function probeImage(
  context: BakeContext,
  image: ProbedImage,
  login: RegistryLogin | undefined,
): Promise<Probed> {
  const { probe, clock, signal } = context
  for (const wait of [...WAITS_MS, undefined]) {
    const result = await probe.manifest(image, login, { signal })
    const again = wait === undefined ? undefined : waitAfter(result, wait)
    if (again === undefined) return { result, at: clock.now() }
    await sleep(clock, again, signal)
    signal.throwIfAborted()
  }
  throw new Error('unreachable')
}

/** Undefined: another attempt would not help, or it would have to wait for too long. */
function waitAfter(result: ProbeResult, wait: number): number | undefined {
  if (result.kind === 'refused' && (result.status === 429 || result.status >= 500)) {
    const asked = Math.max(wait, (result.retryAfter ?? 0) * 1000)
    return asked <= LONGEST_WAIT_MS ? asked : undefined
  }
  if (result.kind !== 'unreachable') return undefined
  const { failure, code } = result
  const passing = failure === 'dns' ? code === 'EAI_AGAIN' : TRANSIENT.has(failure)
  return passing ? wait : undefined
}

export function isFound(result: ProbeResult): result is FoundManifest {
  return result.kind === 'found'
}
