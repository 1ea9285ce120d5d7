import type { OrderedCredential } from '../../apis/bake-order.ts'
import { parseEcrHost } from '../../apis/ecr-host.ts'
import { CloudError, isCloudError } from '../../credentials/cloud-error.ts'
import type { RegistryLogin } from '../registry/outcome.ts'
import type { BakeContext, OrderedService } from './bake-context.ts'
import { BakeFailureError } from './bake-failure-error.ts'

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
