import { subjectAccessReview } from '../apis/core-kinds.ts'
import type { AccessReviewer, ResourceAttributes } from './access-review.ts'
import { postReview } from './ask-review.ts'
import { ApiError } from './client.ts'
import type { CallerIdentity } from './token-review.ts'
import type { Transport } from './transport.ts'

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
