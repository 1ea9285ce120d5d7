import { holds } from './conditions.ts'
import type { Context } from './context.ts'
import { matchesArn, matchesGlob } from './glob.ts'
import type { Policy, Statement } from './policy.ts'
import { expand } from './variables.ts'

/** An action on a resource with its condition keys. */
export type AccessRequest = { action: string; resource: string; context: Context }

/** The combined decision of policies: a deny is final, and no statement is no permission. */
export type Effect = 'allow' | 'deny' | 'none'

/** Source: IAM User Guide, "How AWS enforcement code logic evaluates requests". */
export function evaluate(policies: readonly Policy[], request: AccessRequest): Effect {
  return effectOf(policies.flat().filter((statement) => applies(statement, request)))
}

export function effectOf(statements: readonly Statement[]): Effect {
  if (statements.some(({ allows }) => !allows)) return 'deny'
  return statements.length > 0 ? 'allow' : 'none'
}

/** Whether a statement matches the request, for any principal. */
export function applies(statement: Statement, { action, resource, context }: AccessRequest): boolean {
  const { actions, resources, conditions } = statement
  const name = action.toLowerCase()
  if (actions.patterns.some((pattern) => matchesGlob(pattern, name)) === actions.except) return false
  const inResources = resources.patterns.some((pattern) => isResource(statement, pattern, resource, context))
  if (inResources === resources.except) return false
  return conditions.every((condition) => holds(condition, context))
}

function isResource(
  { hasVariables }: Statement,
  pattern: string,
  resource: string,
  context: Context,
): boolean {
  const expanded = hasVariables ? expand(pattern, context) : pattern
  return expanded !== undefined && matchesArn(expanded, resource)
}
