import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { CloudRemedy } from '../cloud.ts'
import { ERROR_TABLE, meaningOfUnknown, type RetryKind } from './errors.ts'

const { resolve } = createRequire(import.meta.url)

/** The operations that Davit uses. */
const OPERATIONS = [
  ['client-ssm', 'PutParameter'],
  ['client-ssm', 'DeleteParameter'],
  ['client-ssm', 'DescribeParameters'],
  ['client-ssm', 'ListTagsForResource'],
  ['client-ssm', 'GetParameter'],
  ['client-ssm', 'GetParameters'],
  ['client-ssm', 'GetParameterHistory'],
  ['client-ssm', 'GetParametersByPath'],
  ['client-sts', 'AssumeRole'],
  ['client-ecr', 'GetAuthorizationToken'],
] as const

/** Errors that the SDK declares for an operation, besides the base class of the service. */
function declaredErrors(client: string, operation: string): string[] {
  const types = join(dirname(resolve(`@aws-sdk/${client}`)), '../dist-types/commands')
  const text = readFileSync(join(types, `${operation}Command.d.ts`), 'utf8')
  return [...text.matchAll(/@throws \{@link (\w+)\} \(/g)].map(([, name]) => name ?? '')
}

const WANTED: readonly [code: string, remedy: CloudRemedy, again: RetryKind | undefined][] = [
  ['InternalServerError', 'retry', 'soon'],
  ['ServerException', 'retry', 'soon'],
  ['ServiceUnavailable', 'retry', 'soon'],
  ['TooManyUpdates', 'retry', 'later'],
  ['ThrottlingException', 'retry', 'throttled'],
  ['Throttling', 'retry', 'throttled'],
  ['ExpiredToken', 'retry', 'session'],
  ['ExpiredTokenException', 'retry', 'session'],
  ['UnrecognizedClientException', 'permissions', 'session'],
  ['InvalidClientTokenId', 'permissions', 'session'],
  ['AccessDenied', 'permissions', undefined],
  ['AccessDeniedException', 'permissions', undefined],
  ['RegionDisabledException', 'permissions', undefined],
  ['InvalidKeyId', 'permissions', undefined],
  ['ParameterLimitExceeded', 'permissions', undefined],
  ['ParameterMaxVersionLimitExceeded', 'permissions', undefined],
  ['ParameterAlreadyExists', 'spec', undefined],
  ['HierarchyLevelLimitExceededException', 'spec', undefined],
  ['HierarchyTypeMismatchException', 'spec', undefined],
  ['ParameterPatternMismatchException', 'spec', undefined],
  ['UnsupportedParameterType', 'spec', undefined],
  ['ValidationException', 'spec', undefined],
  ['ValidationError', 'spec', undefined],
  ['MalformedPolicyDocumentException', 'spec', undefined],
  ['PackedPolicyTooLargeException', 'spec', undefined],
  ['ParameterNotFound', 'gone', undefined],
  ['InvalidResourceId', 'gone', undefined],
  ['Unreachable', 'retry', 'soon'],
  ['TimedOut', 'retry', 'soon'],
  ['Busy', 'retry', undefined],
  ['NoIdentity', 'retry', undefined],
]

describe('the table of errors', () => {
  for (const [client, operation] of OPERATIONS) {
    it(`has every error that the SDK declares for ${operation}`, () => {
      const declared = declaredErrors(client, operation)
      expect(declared.filter((code) => !ERROR_TABLE.has(code))).toEqual([])
    })
  }

  it('is held against declarations that are really there', () => {
    expect(declaredErrors('client-ssm', 'PutParameter')).toContain('TooManyUpdates')
    expect(declaredErrors('client-sts', 'AssumeRole')).toContain('PackedPolicyTooLargeException')
  })

  for (const [code, remedy, again] of WANTED) {
    it(`says of ${code}: ${remedy}${again ? `, again ${again}` : ''}`, () => {
      const { remedy: found, again: how } = ERROR_TABLE.get(code) ?? {}
      expect([found, how]).toEqual([remedy, again])
    })
  }

  it('fits into the values that a label may have', () => {
    expect(ERROR_TABLE.size).toBeLessThan(100)
  })

  it.each([
    [429, { remedy: 'retry', again: 'throttled' }],
    [500, { remedy: 'retry', again: 'soon' }],
    [503, { remedy: 'retry', again: 'soon' }],
    [401, { remedy: 'permissions' }],
    [403, { remedy: 'permissions' }],
    [400, { remedy: 'spec' }],
    [418, { remedy: 'spec' }],
    [302, { remedy: 'retry', again: 'soon' }],
  ])('judges a code that it does not know by the status %i', (status, want) => {
    expect(meaningOfUnknown(status)).toEqual(want)
  })
})
