import type { Parameter, ParameterStore } from '../account.ts'
import { AwsError, NotInTheDouble } from '../aws-error.ts'
import type { Call } from '../call.ts'

type Extra = Readonly<Record<string, string | readonly string[] | undefined>>

export function storeOf({ principal, region }: Call): ParameterStore {
  return principal.account.parameters(region)
}

/** Whether the caller may do this with a parameter, which need not be there. @throws AwsError */
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

/** What the request says of tags, for conditions. */
export function requestTags(tags: readonly { Key: string; Value: string }[]): Extra {
  if (tags.length === 0) return {}
  return {
    'aws:TagKeys': tags.map(({ Key }) => Key),
    ...Object.fromEntries(tags.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value])),
  }
}

/** The parameter as readers of this call see it, which may be as it was. @throws AwsError ParameterNotFound */
export function seenParameter(call: Call, name: string): Parameter {
  const parameter = storeOf(call).get(name, seenAt(call))
  if (!parameter) throw notFound()
  return parameter
}

/** The time whose state readers see. */
export function seenAt({ now, lagMs }: Call): number | undefined {
  return lagMs > 0 ? now - lagMs : undefined
}

/** AWS says nothing else. */
export function notFound(): AwsError {
  return AwsError.coded('ParameterNotFound', '')
}
