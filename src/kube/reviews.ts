import { subjectAccessReview, tokenReview } from '../apis/core-kinds.ts'
import { KEY_AUDIENCE } from '../apis/meta.ts'
import { ApiError, isApiError } from './client.ts'
import { type ConnectOptions, connectToCluster, type Transport } from './transport.ts'

/** Who a token belongs to, as the API server says. */
export type CallerIdentity = {
  /** Such as `system:serviceaccount:acme:ci`. */
  username: string
  uid: string
  groups: readonly string[]
  extra: Readonly<Record<string, readonly string[]>>
}

export interface TokenReviewer {
  /**
   * The owner of a token that is valid for Davit's audience, undefined for any other token.
   * @throws ApiError when the API server did not say
   */
  review(token: string): Promise<CallerIdentity | undefined>
}

/** A right in one namespace; an empty namespace would mean all of them. */
export type ResourceAttributes = {
  namespace: string
  /** Of the API, such as `davit.dev`. */
  group: string
  verb: string
  resource: string
  subresource?: string
}

export interface AccessReviewer {
  /** Whether RBAC lets `who` do it. @throws ApiError when the API server did not say */
  allowed(who: CallerIdentity, question: ResourceAttributes): Promise<boolean>
}

/**
 * Asks the API server for a verdict on somebody. Forbidden is said of Davit itself, and also by an API server that has
 * just started and does not know the roles yet: then there is no verdict, and it comes later.
 * @throws ApiError, never `Forbidden`
 */
async function postReview(transport: Pick<Transport, 'call'>, path: string, review: object): Promise<Buffer> {
  try {
    return await transport.call({ verb: 'create', repeatable: true, path, body: JSON.stringify(review) })
  } catch (error) {
    if (!isApiError(error, 'Forbidden')) throw error
    throw new ApiError('Unavailable', error.message, { cause: error })
  }
}

const PATHOfKubernetesTokenReview = '/apis/authentication.k8s.io/v1/tokenreviews'

/** Keys are checked by the API server itself; the token is in no error and no log. */
export function createTokenReviewer(transport: Pick<Transport, 'call'>): TokenReviewer {
  return {
    async review(token) {
      const answer = await postReview(transport, PATHOfKubernetesTokenReview, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences: [KEY_AUDIENCE] },
      })
      return identityOf(answer)
    },
  }
}

/** An authenticator that does not know audiences answers without any: then the token was checked for none. */
function identityOf(answer: Buffer): CallerIdentity | undefined {
  const { authenticated, audiences, error, user } = parseOfKubernetesTokenReview(answer).status
  if (!authenticated || error !== '' || !audiences.includes(KEY_AUDIENCE)) return undefined
  return user === undefined || user.username === '' ? undefined : user
}

function parseOfKubernetesTokenReview(answer: Buffer) {
  try {
    return tokenReview.parse(JSON.parse(answer.toString('utf8')))
  } catch {
    // Without the cause, which might repeat the token.
    throw new ApiError('Unavailable', 'the API server answered with something that is not a TokenReview', {
      status: 200,
    })
  }
}

const PATH = '/apis/authorization.k8s.io/v1/subjectaccessreviews'

export function createAccessReviewer(transport: Pick<Transport, 'call'>): AccessReviewer {
  return {
    async allowed(who, question) {
      // It would ask for a right in all namespaces.
      if (question.namespace === '') return false
      return isAllowed(await postReview(transport, PATH, reviewOf(who, question)))
    },
  }
}

function reviewOf(
  who: CallerIdentity,
  { namespace, group, verb, resource, subresource }: ResourceAttributes,
): object {
  const { username, uid, groups, extra } = who
  return {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: username,
      uid,
      groups,
      extra,
      resourceAttributes: {
        namespace,
        group,
        verb,
        resource,
        ...(subresource === undefined ? {} : { subresource }),
      },
    },
  }
}

/** @throws ApiError also where one authorizer failed and none of the others allowed it: then nobody knows */
function isAllowed(answer: Buffer): boolean {
  const { allowed, denied, evaluationError } = parse(answer).status
  if (allowed && !denied) return true
  if (!denied && evaluationError !== '') {
    throw new ApiError('Unavailable', 'the API server could not evaluate a right', { status: 200 })
  }
  return false
}

function parse(answer: Buffer) {
  try {
    return subjectAccessReview.parse(JSON.parse(answer.toString('utf8')))
  } catch (error) {
    throw new ApiError(
      'Unavailable',
      'the API server answered with something that is not a SubjectAccessReview',
      { status: 200, cause: error },
    )
  }
}

export type Reviews = { tokens: TokenReviewer; access: AccessReviewer; close(): Promise<void> }

/** A client that waits for a verdict should not wait longer. */
const DEADLINE_MS = 5_000
const CONNECTIONS = 16

/** On connections of their own, so that verdicts do not queue behind writes. @throws Error when there is no way to a cluster */
export async function connectReviews(options: ConnectOptions): Promise<Reviews> {
  const transport = await connectToCluster({ connections: CONNECTIONS, ...options, deadlineMs: DEADLINE_MS })
  return {
    tokens: createTokenReviewer(transport),
    access: createAccessReviewer(transport),
    close: () => transport.close(),
  }
}
