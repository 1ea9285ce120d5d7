/**
 * What the codes of AWS mean for Davit: those that the operations used here declare, the common ones of all services, and what
 * the adapter itself says where AWS said nothing.
 */
import type { CloudRemedy } from '../cloud-error.ts'

/**
 * How a failed attempt is repeated within the same call: `soon`; `later`, since something else is being done to the same thing;
 * `throttled`, since there were too many; `session`, once, with a session made anew. Absent: not at all.
 */
export type RetryKind = 'soon' | 'later' | 'throttled' | 'session'

export type ErrorMeaning = { remedy: CloudRemedy; again?: RetryKind }

const PASSING: ErrorMeaning = { remedy: 'retry', again: 'soon' }
const CONTENDED: ErrorMeaning = { remedy: 'retry', again: 'later' }
const TOO_MANY: ErrorMeaning = { remedy: 'retry', again: 'throttled' }
const SESSION_ENDED: ErrorMeaning = { remedy: 'retry', again: 'session' }
/** Also said of sessions that the region does not know yet; and of regions that the account has not enabled. */
const NOT_KNOWN: ErrorMeaning = { remedy: 'permissions', again: 'session' }
const REFUSED: ErrorMeaning = { remedy: 'permissions' }
/** The account is full, or holds the thing in a way that only its owner can change. */
const ACCOUNT: ErrorMeaning = { remedy: 'permissions' }
const WRONG: ErrorMeaning = { remedy: 'spec' }
const GONE: ErrorMeaning = { remedy: 'gone' }
const LATER: ErrorMeaning = { remedy: 'retry' }

const BY_MEANING: readonly [ErrorMeaning, readonly string[]][] = [
  [
    PASSING,
    [
      'InternalServerError',
      'InternalServerException',
      'InternalFailure',
      'InternalError',
      'ServerException',
      'ServiceException',
      'ServiceUnavailable',
      'ServiceUnavailableException',
      'RequestTimeout',
      'RequestTimeoutException',
      'IDPCommunicationError',
      'KMSInternalException',
    ],
  ],
  [CONTENDED, ['TooManyUpdates', 'ConcurrentModificationException']],
  [
    TOO_MANY,
    [
      'Throttling',
      'ThrottlingException',
      'ThrottledException',
      'RequestLimitExceeded',
      'TooManyRequestsException',
      'SlowDown',
    ],
  ],
  [SESSION_ENDED, ['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired']],
  [NOT_KNOWN, ['UnrecognizedClient', 'UnrecognizedClientException', 'InvalidClientTokenId']],
  // Where the clock is to blame, the SDK has set it right by then, and the attempt is repeated whatever the code.
  [LATER, ['RequestExpired', 'RequestInTheFuture', 'RequestTimeTooSkewed']],
  // A page of a list, which has to be begun anew.
  [LATER, ['InvalidNextToken', 'InvalidNextTokenException']],
  [
    REFUSED,
    [
      'AccessDenied',
      'AccessDeniedException',
      'AuthFailure',
      'IncompleteSignature',
      'IncompleteSignatureException',
      'InvalidSignatureException',
      'MissingAuthenticationToken',
      'MissingAuthenticationTokenException',
      'OptInRequired',
      'SignatureDoesNotMatch',
      'UnauthorizedOperation',
      'RegionDisabledException',
      // Keys. SSM says InvalidKeyId of a key that is absent, disabled, or not to be used.
      'InvalidKeyId',
      'DisabledException',
      'InvalidKeyUsageException',
      'KMSAccessDeniedException',
      'KMSInvalidStateException',
      'KMSNotFoundException',
    ],
  ],
  [
    ACCOUNT,
    [
      'ParameterLimitExceeded',
      'ParameterMaxVersionLimitExceeded',
      'TooManyTagsError',
      'LimitExceededException',
      'ServiceQuotaExceededException',
    ],
  ],
  [
    WRONG,
    [
      'ParameterAlreadyExists',
      'HierarchyLevelLimitExceededException',
      'HierarchyTypeMismatchException',
      'IncompatiblePolicyException',
      'InvalidAllowedPatternException',
      'InvalidPolicyAttributeException',
      'InvalidPolicyTypeException',
      'ParameterPatternMismatchException',
      'PoliciesLimitExceededException',
      'UnsupportedParameterType',
      'UnsupportedOperationException',
      'InvalidFilterKey',
      'InvalidFilterOption',
      'InvalidFilterValue',
      'InvalidResourceType',
      'InvalidAction',
      'InvalidParameterCombination',
      'InvalidParameterException',
      'InvalidParameterValue',
      'MalformedPolicyDocument',
      'MalformedPolicyDocumentException',
      'MissingParameter',
      'PackedPolicyTooLarge',
      'PackedPolicyTooLargeException',
      'SerializationException',
      'UnknownOperationException',
      'ValidationError',
      'ValidationException',
      // Of the adapter: more parameters than a listing may have.
      'TooManyParameters',
    ],
  ],
  [GONE, ['ParameterNotFound', 'ParameterVersionNotFound', 'InvalidResourceId']],
  // Of the adapter, where AWS said nothing.
  [PASSING, ['Unreachable', 'TimedOut', 'UnreadableAnswer']],
  [LATER, ['Canceled', 'Busy', 'NoIdentity', 'Failed']],
]

export const ERROR_TABLE: ReadonlyMap<string, ErrorMeaning> = new Map(
  BY_MEANING.flatMap(([meaning, codes]) => codes.map((code) => [code, meaning] as const)),
)

/**
 * What a code means that is not in the table, by the status that came with it. Whatever is not surely the fault of a role or
 * of what was asked is tried again: a wrong advice to change something is worse than a wait.
 */
export function meaningOfUnknown(status: number): ErrorMeaning {
  if (status === 429) return TOO_MANY
  if (status === 401 || status === 403) return REFUSED
  if (status >= 400 && status < 500) return WRONG
  return PASSING
}
