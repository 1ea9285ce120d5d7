import type { Parameter, ParameterStore } from '../account.ts'
import { AwsError, NotInTheDouble } from '../aws-error.ts'
import type { Call } from '../call.ts'

type Extra = Readonly<Record<string, string | readonly string[] | undefined>>

export function storeOf({ principal, region }: Call): ParameterStore {
  return principal.account.parameters(region)
}

/** Checks the caller's permission on a parameter, which need not exist. @throws AwsError */
export function authorizeParameter(call: Call, action: string, name: string, extra: Extra = {}): void {
  if (name.startsWith('arn:')) throw new NotInTheDouble('a parameter that is named by its ARN')
  const store = storeOf(call)
  const tags = store.get(name)?.tags ?? []
  const context = call.context
    .with({ 'aws:ResourceAccount': store.account.id, ...extra })
    .setAll('aws:ResourceTag/', tags)
    .setAll('ssm:resourceTag/', tags)
  call.authorize({ action, resource: store.arn(name), context })
}

/** The condition keys of the tags in a request. */
export function requestTags(tags: readonly { Key: string; Value: string }[]): Extra {
  if (tags.length === 0) return {}
  return {
    'aws:TagKeys': tags.map(({ Key }) => Key),
    ...Object.fromEntries(tags.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value])),
  }
}

/** The parameter in the state that readers of this call see, which may be stale. @throws AwsError ParameterNotFound */
export function seenParameter(call: Call, name: string): Parameter {
  const parameter = storeOf(call).get(name, seenAt(call))
  if (!parameter) throw notFound()
  return parameter
}

/** The time of the state that readers see. */
export function seenAt({ now, lagMs }: Call): number | undefined {
  return lagMs > 0 ? now - lagMs : undefined
}

/** AWS gives no more detail. */
export function notFound(): AwsError {
  return AwsError.coded('ParameterNotFound', '')
}
