/** Source: SSM API Reference, PutParameter, Name; Systems Manager User Guide, "About requirements and constraints for parameter names". */
import { AwsError } from '../aws-error.ts'

const LONGEST_ARN = 1_011
const DEEPEST = 15
const CHARACTERS = /^[A-Za-z0-9_.\-/]+$/

/** @param arn of the parameter @throws AwsError for a name that a new parameter cannot have */
export function checkName(name: string, arn: string): void {
  if (/^\/(aws|ssm)\//i.test(name))
    throw /^\/aws\//i.test(name)
      ? AwsError.of('access-denied', `No access to reserved parameter name: ${name}.`)
      : invalid(`Parameter name: can't be prefixed with "ssm" (case-insensitive). ${PATH_RULE}`)
  if (/^\/?(aws|ssm)/i.test(name))
    throw invalid(`Parameter name: can't be prefixed with "aws" or "ssm" (case-insensitive). ${PATH_RULE}`)
  if (!CHARACTERS.test(name)) throw invalid(`Parameter name: ${PATH_RULE}`)
  if (name.includes('/') && !name.startsWith('/'))
    throw invalid('Parameter name must be a fully qualified name.')
  if (name.includes('//') || name.endsWith('/')) throw invalid(`Parameter name: ${PATH_RULE}`)
  // A leading slash counts extra: the ARN prefix already ends with one.
  if (arn.length + (name.startsWith('/') ? 1 : 0) > LONGEST_ARN)
    throw invalid(`Parameter ARN is too long: it must have length less than or equal to ${LONGEST_ARN}.`)
  if (name.split('/').length - (name.startsWith('/') ? 1 : 0) > DEEPEST)
    throw AwsError.coded(
      'HierarchyLevelLimitExceededException',
      `Parameter name must not have more than ${DEEPEST} levels.`,
    )
}

const PATH_RULE =
  'If formed as a path, it can consist of sub-paths divided by slash symbol; ' +
  'each sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_'

/** A name with an optional version or label, as readers give it. */
export type Selected = { name: string; selector: string | undefined }

export function readSelector(given: string): Selected {
  const at = given.indexOf(':')
  return at < 0
    ? { name: given, selector: undefined }
    : { name: given.slice(0, at), selector: given.slice(at + 1) }
}

function invalid(message: string): AwsError {
  return AwsError.of('validation', message)
}
