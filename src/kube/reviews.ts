import { subjectAccessReview, tokenReview } from '../apis/core-kinds.ts'
import { KEY_AUDIENCE } from '../apis/meta.ts'
import { ApiError, isApiError } from './client.ts'
import { createTokenSignatures, type TokenSignatures } from './token-signatures.ts'
import { type ConnectOptions, connectToCluster, type Transport } from './transport.ts'

/** Asks the API server who a token belongs to (TokenReview) and what its owner may do (SubjectAccessReview). */

export type CallerIdentity = {
  /** Such as `system:serviceaccount:acme:ci`. */
  username: string
  uid: string
  groups: readonly string[]
  extra: Readonly<Record<string, readonly string[]>>
}

export interface TokenReviewer {
  /**
   * The owner of a token that is valid for Davit's audience, undefined for any other.
   * @throws ApiError if the API server did not decide
   */
  review(token: string): Promise<CallerIdentity | undefined>
}

/** A right in one namespace; an empty namespace would mean all. */
export type ResourceAttributes = {
  namespace: string
  /** API group, such as `davit.dev`. */
  group: string
  verb: string
  resource: string
  subresource?: string
}

export interface AccessReviewer {
  /** Whether RBAC allows it. @throws ApiError if the API server did not decide */
  allowed(who: CallerIdentity, question: ResourceAttributes): Promise<boolean>
}

/**
 * Forbidden is about Davit itself. An API server that has just started and does not know the roles yet also says so:
 * then there is no answer yet.
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

const TOKEN_REVIEWS = '/apis/authentication.k8s.io/v1/tokenreviews'

/** The token appears in no error and no log. */
export function createTokenReviewer(transport: Pick<Transport, 'call'>): TokenReviewer {
  return {
    async review(token) {
      const answer = await postReview(transport, TOKEN_REVIEWS, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences: [KEY_AUDIENCE] },
      })
      return identityOf(answer)
    },
  }
}

/** An authenticator without audiences returns none: then the token was not checked for one. */
function identityOf(answer: Buffer): CallerIdentity | undefined {
  const { authenticated, audiences, error, user } = parse(tokenReview, 'TokenReview', answer).status
  if (!authenticated || error !== '' || !audiences.includes(KEY_AUDIENCE)) return undefined
  return user === undefined || user.username === '' ? undefined : user
}

const ACCESS_REVIEWS = '/apis/authorization.k8s.io/v1/subjectaccessreviews'

export function createAccessReviewer(transport: Pick<Transport, 'call'>): AccessReviewer {
  return {
    async allowed(who, question) {
      // It would mean all namespaces.
      if (question.namespace === '') return false
      return isAllowed(await postReview(transport, ACCESS_REVIEWS, reviewOf(who, question)))
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
      resourceAttributes: { namespace, group, verb, resource, subresource },
    },
  }
}

/** @throws ApiError also if an authorizer failed and no other allowed it: the answer is unknown */
function isAllowed(answer: Buffer): boolean {
  const { allowed, denied, evaluationError } = parse(
    subjectAccessReview,
    'SubjectAccessReview',
    answer,
  ).status
  if (allowed && !denied) return true
  if (!denied && evaluationError !== '') {
    throw new ApiError('Unavailable', 'the API server failed to evaluate a permission', { status: 200 })
  }
  return false
}

function parse<T>(schema: { parse(value: unknown): T }, kind: string, answer: Buffer): T {
  try {
    return schema.parse(JSON.parse(answer.toString('utf8')))
  } catch (error) {
    throw new ApiError('Unavailable', `the API server returned a response that is not a ${kind}`, {
      status: 200,
      // The cause of a bad TokenReview could contain the token.
      cause: kind === 'TokenReview' ? undefined : error,
    })
  }
}

export type Reviews = {
  tokens: TokenReviewer
  signatures: TokenSignatures
  access: AccessReviewer
  close(): Promise<void>
}

/** REST clients wait for the review. */
const DEADLINE_MS = 5_000
const CONNECTIONS = 16

/** Own connections keep reviews from queueing behind writes. @throws Error if there is no access to a cluster */
export async function connectReviews(options: ConnectOptions): Promise<Reviews> {
  const transport = await connectToCluster({ connections: CONNECTIONS, ...options, deadlineMs: DEADLINE_MS })
  return {
    tokens: createTokenReviewer(transport),
    signatures: createTokenSignatures(transport, options.clock),
    access: createAccessReviewer(transport),
    close: () => transport.close(),
  }
}
