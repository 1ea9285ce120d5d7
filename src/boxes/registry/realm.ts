/** Where a registry may send people with their password (its realm), so that its answer cannot invent a receiver. */

export type RealmCheck = {
  /** As the challenge has it. */
  realm: string
  /** Canonical host of the registry, and the one that is asked for it. */
  registry: string
  apiHost: string
  /** Hosts, with a port where it is not 443, that the operator allows besides. */
  allowed: readonly string[]
  /** Whether a password would go there. */
  withLogin: boolean
}

export type RealmDecision = { ok: true; url: URL; isOwn: boolean } | { ok: false; reason: string }

/** Registries of the public whose tokens are known to come from another host. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['docker.io', 'auth.docker.io'],
  ['registry.gitlab.com', 'gitlab.com'],
])
const MAX_REALM_LENGTH = 2048

export function checkTokenRealm(question: RealmCheck): RealmDecision {
  const { realm } = question
  // The parser drops tabs and line breaks and takes backslashes for slashes: such a text is not what it seems.
  if (realm.length > MAX_REALM_LENGTH || /[\s\p{Cc}\\]/u.test(realm) || !URL.canParse(realm))
    return no('it is no URL')
  const url = new URL(realm)
  if (url.protocol !== 'https:') return no('it is not https')
  if (url.username !== '' || url.password !== '') return no('it has a user in it')
  if (url.hash !== '') return no('it has a fragment')
  const isOwn = url.host === new URL(`https://${question.apiHost}`).host
  if (isOwn || !question.withLogin || isAllowed(url, question)) return { ok: true, url, isOwn }
  return no(
    `it is on ${url.host}, neither the host and port of the registry nor one that the operator allows (DAVIT_BAKE_REALMS)`,
  )
}

function isAllowed({ host }: URL, { registry, allowed }: RealmCheck): boolean {
  if (KNOWN.get(registry) === host) return true
  return allowed.some((one) => URL.parse(`https://${one}`)?.host === host)
}

function no(reason: string): RealmDecision {
  return { ok: false, reason }
}
