import { randomBytes } from 'node:crypto'
import type { Account, Credentials, Principal, Session, User } from './account.ts'
import { AwsError } from './aws-error.ts'
import { secretKey, uniqueId } from './identifiers.ts'

type UserKey = { account: Account; user: User; secret: string }
type SessionKey = { account: Account; session: Session; secret: string; token: string }

const MAX_USER_KEYS = 10_000
const MAX_SESSIONS = 50_000

/** Every valid access key, of users (AKIA) and of sessions (ASIA). Both are bounded: the oldest session is dropped first. */
export class AccessKeys {
  readonly #users = new Map<string, UserKey>()
  readonly #sessions = new Map<string, SessionKey>()

  addUserKey(account: Account, user: User): Credentials {
    if (this.#users.size >= MAX_USER_KEYS) throw new RangeError(`more than ${MAX_USER_KEYS} access keys`)
    const accessKeyId = uniqueId('AKIA')
    const secret = secretKey()
    this.#users.set(accessKeyId, { account, user, secret })
    return { accessKeyId, secretAccessKey: secret }
  }

  removeUserKey(accessKeyId: string): void {
    this.#users.delete(accessKeyId)
  }

  addSession(account: Account, session: Session): Credentials & { sessionToken: string } {
    const [oldest] = this.#sessions.keys()
    if (this.#sessions.size >= MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest)
    const accessKeyId = uniqueId('ASIA')
    const key = {
      account,
      session,
      secret: secretKey(),
      token: `IQoJb3JpZ2luX2Vj${randomBytes(420).toString('base64')}`,
    }
    this.#sessions.set(accessKeyId, key)
    return { accessKeyId, secretAccessKey: key.secret, sessionToken: key.token }
  }

  /** @throws AwsError for an unknown key or a wrong session token; not for an expired key */
  find(accessKeyId: string, token: string | undefined): { secret: string; principal: Principal } {
    const user = this.#users.get(accessKeyId)
    if (user && token === undefined && !user.account.isClosed)
      return { secret: user.secret, principal: userPrincipal(user) }
    const session = this.#sessions.get(accessKeyId)
    if (
      session &&
      session.token === token &&
      !session.account.isClosed &&
      session.account.has(session.session.role)
    )
      return { secret: session.secret, principal: sessionPrincipal(session) }
    throw AwsError.of('invalid-token', 'The security token included in the request is invalid.')
  }
}

function userPrincipal({ account, user }: UserKey): Principal {
  const { arn, id: userId, tags, policies, name: userName } = user
  return { account, arn, userId, tags, policies, userName }
}

function sessionPrincipal({ account, session }: SessionKey): Principal {
  const { role, name } = session
  return {
    account,
    arn: `arn:${account.partition.name}:sts::${account.id}:assumed-role/${role.name}/${name}`,
    userId: `${role.id}:${name}`,
    tags: new Map([...role.tags, ...session.tags]),
    policies: role.policies,
    session,
  }
}
