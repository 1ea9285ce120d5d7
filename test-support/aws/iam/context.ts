import { NotInTheDouble } from '../aws-error.ts'

/** Condition keys that the emulator sets wherever AWS does; `*` ends an open name. */
const KNOWN_KEYS = [
  'aws:currenttime',
  'aws:epochtime',
  'aws:principalaccount',
  'aws:principalarn',
  'aws:principaltag/*',
  'aws:principaltype',
  'aws:requestedregion',
  'aws:requesttag/*',
  'aws:resourceaccount',
  'aws:resourcetag/*',
  'aws:securetransport',
  'aws:tagkeys',
  'aws:tokenissuetime',
  'aws:userid',
  'aws:username',
  'aws:viaawsservice',
  'kms:calleraccount',
  'kms:encryptioncontext:*',
  'kms:encryptioncontextkeys',
  'kms:viaservice',
  'ssm:overwrite',
  'ssm:recursive',
  'ssm:resourcetag/*',
  'sts:externalid',
  'sts:rolesessionname',
  'sts:transitivetagkeys',
] as const

/** Claims of a web identity, prefixed with their issuer: `oidc.example.com/id/1:sub`. */
const CLAIM_KEY = /^(?!(?:aws|kms|ssm|sts):)[a-z0-9.:_/-]+:(?:aud|sub)$/

/** Keys with a set of values. */
const SET_KEYS = new Set(['aws:tagkeys', 'kms:encryptioncontextkeys', 'sts:transitivetagkeys'])

/** @throws NotInTheDouble for a key that the emulator never sets */
export function checkKey(key: string): void {
  const name = key.toLowerCase()
  const known = KNOWN_KEYS.some((one) =>
    one.endsWith('*') ? name.startsWith(one.slice(0, -1)) && name.length >= one.length : name === one,
  )
  if (!known && !CLAIM_KEY.test(name)) throw new NotInTheDouble(`the condition key ${key}`)
}

export function isSetKey(key: string): boolean {
  return SET_KEYS.has(key.toLowerCase())
}

/** The condition keys of a request, with case-insensitive names. */
export class Context {
  readonly #values = new Map<string, readonly string[]>()

  /** An undefined value leaves the key absent. */
  set(key: string, value: string | readonly string[] | undefined): this {
    checkKey(key)
    if (value !== undefined) this.#values.set(key.toLowerCase(), typeof value === 'string' ? [value] : value)
    return this
  }

  setAll(prefix: string, tags: Iterable<readonly [string, string]>): this {
    for (const [key, value] of tags) this.set(`${prefix}${key}`, value)
    return this
  }

  get(key: string): readonly string[] | undefined {
    return this.#values.get(key.toLowerCase())
  }

  /** @returns a context with these keys added */
  with(values: Readonly<Record<string, string | readonly string[] | undefined>>): Context {
    const context = new Context()
    for (const [key, value] of this.#values) context.#values.set(key, value)
    for (const [key, value] of Object.entries(values)) context.set(key, value)
    return context
  }
}
