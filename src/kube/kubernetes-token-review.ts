import { tokenReview } from '../apis/core-kinds.ts'
import { KEY_AUDIENCE } from '../apis/meta.ts'
import { postReview } from './ask-review.ts'
import { ApiError } from './client.ts'
import type { CallerIdentity, TokenReviewer } from './token-review.ts'
import type { Transport } from './transport.ts'

const PATH = '/apis/authentication.k8s.io/v1/tokenreviews'

/** Keys are checked by the API server itself; the token is in no error and no log. */
export function createTokenReviewer(transport: Pick<Transport, 'call'>): TokenReviewer {
  return {
    async review(token) {
      const answer = await postReview(transport, PATH, {
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
  const { authenticated, audiences, error, user } = parse(answer).status
  if (!authenticated || error !== '' || !audiences.includes(KEY_AUDIENCE)) return undefined
  return user === undefined || user.username === '' ? undefined : user
}

function parse(answer: Buffer) {
  try {
    return tokenReview.parse(JSON.parse(answer.toString('utf8')))
  } catch {
    // Without the cause, which might repeat the token.
    throw new ApiError('Unavailable', 'the API server answered with something that is not a TokenReview', {
      status: 200,
    })
  }
}
