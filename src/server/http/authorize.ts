import { DNS_LABEL, GROUP } from '../../apis/meta.ts'
import type { AccessReviewer } from '../../kube/access-review.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Client } from './auth.ts'
import type { KnownOrganizations } from './facade.ts'
import { StickyAllowCache, transientDenial } from './known-good.ts'
import { KeyedSemaphore, Semaphore } from './limits.ts'
import { type Permission, VISIBILITY } from './permission.ts'
import { Problem } from './problems.ts'
import { ReviewCache } from './verdict-cache.ts'

export type Authorizer = (client: Client, organization: string, permission: Permission) => Promise<void>

export type AuthorizerOptions = { access: AccessReviewer; organizations: KnownOrganizations; clock: Clock }

/** A right that was taken away goes on for so long at most. */
const ALLOWED_FOR_MS = 5_000
/** One that was just given is there after so long at most. */
const REFUSED_FOR_MS = 2_000
/** One that was there is gone when its refusal has lasted for so long; until then it is asked about again and again. */
const BELIEVED_AFTER_MS = 3_000
const ASKED_AGAIN_AFTER_MS = 500
const DOUBTED = 'The cluster refuses what it allowed before; nothing was done, and it is asked again.'
const MOST_VERDICTS = 50_000
/** Of all users, and of one: whoever asks for many organizations waits for itself. */
const MOST_REVIEWS = { atOnce: 200, waiting: 0 }
const MOST_REVIEWS_OF_USER = { atOnce: 8, waiting: 100 }

type Verdict = 'allowed' | 'refused' | 'doubtful'

const KEEP_MS: Readonly<Record<Verdict, number>> = {
  allowed: ALLOWED_FOR_MS,
  refused: REFUSED_FOR_MS,
  doubtful: ASKED_AGAIN_AFTER_MS,
}

/**
 * Lets a client do something in an organization, or throws.
 * @throws Problem `not_found` where the organization is none or the client cannot see it, which look the same;
 * `forbidden` where it can see it; `unavailable` where it had the right a moment ago; `overloaded`. ApiError when the API
 * server did not say
 */
export function createAuthorizer({ access, organizations, clock }: AuthorizerOptions): Authorizer {
  const verdicts = new ReviewCache<Verdict>({
    clock,
    most: MOST_VERDICTS,
    keepMs: (verdict) => KEEP_MS[verdict],
  })
  // Of a facade that has just started, or of a key that it has not seen, it knows nothing, and believes what it is told.
  const known = new StickyAllowCache({ clock, most: MOST_VERDICTS, believedAfterMs: BELIEVED_AFTER_MS })
  const ofAll = new Semaphore(MOST_REVIEWS)
  // Not of a key: one ServiceAccount can have any number of keys.
  const ofUsers = new KeyedSemaphore(MOST_REVIEWS_OF_USER)
  const may = ({ keyHash, identity }: Client, namespace: string, permission: Permission) => {
    const { verb, resource, subresource } = permission
    const place = placeOf(keyHash, namespace)
    const name = [place, verb, resource, subresource ?? ''].join(' ')
    const review = async (): Promise<Verdict> => {
      const allowed = await access.allowed(identity, { namespace, group: GROUP, ...permission })
      if (allowed) {
        for (const one of [name, place]) known.accepted(one)
        return 'allowed'
      }
      known.refused(place)
      return known.refused(name) ? 'doubtful' : 'refused'
    }
    return verdicts.get(name, () => ofUsers.run(identity.username, () => ofAll.run(review)))
  }

  return async (client, organization, permission) => {
    if (!DNS_LABEL.test(organization)) throw new Problem('not_found')
    // Asked also of an organization that is none: how long it takes says nothing about what is there.
    const verdict = await may(client, organization, permission)
    const seen =
      verdict === 'refused'
        ? await Promise.all(VISIBILITY.map((one) => may(client, organization, one)))
        : [verdict]
    if (!organizations.has(organization)) throw new Problem('not_found')
    if (verdict === 'allowed') return
    if (seen.includes('allowed')) throw new Problem('forbidden')
    // Whoever had another right here a moment ago is not told that there is nothing.
    const isDoubtful = seen.includes('doubtful') || known.refused(placeOf(client.keyHash, organization))
    throw isDoubtful ? transientDenial(DOUBTED) : new Problem('not_found')
  }
}

/** Of all rights that a key has in an organization. */
function placeOf(keyHash: string, organization: string): string {
  return `${keyHash} ${organization}`
}
