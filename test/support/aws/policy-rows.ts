/** Rows of tables about policies. */
import { Context } from '../../../test-support/aws/iam/context.ts'
import { type Effect, evaluate } from '../../../test-support/aws/iam/evaluate.ts'
import { parsePolicy } from '../../../test-support/aws/iam/policy.ts'

/** The parameter of every row that names no other. */
export const PARAMETER_ARN = 'arn:aws:ssm:eu-central-1:222222222222:parameter/davit/acme/rc_x'

/** A statement that allows the default request of the rows. */
export const PUT = { Effect: 'Allow', Action: 'ssm:PutParameter', Resource: '*' }

export type PolicyRow = {
  name: string
  given: Record<string, unknown> | Record<string, unknown>[]
  action?: string
  resource?: string
  context?: Record<string, string | string[]>
  version?: string
  want: Effect
}

export function effectOfRow(row: PolicyRow): Effect {
  const { given, action = 'ssm:PutParameter', resource = PARAMETER_ARN, context = {}, version } = row
  const policy = parsePolicy({ Version: version ?? '2012-10-17', Statement: given }, 'identity')
  return evaluate([policy], { action, resource, context: new Context().with(context) })
}
