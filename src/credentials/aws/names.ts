/** A KMS key as SecretsSettings and the parameter store name it: by id, by alias, or by the ARN of either. */
import { KMS_KEY } from '../../apis/aws-names.ts'

/** `place` only where an ARN was given. */
export type KmsKey = { kind: 'key' | 'alias'; id: string; place?: { region: string; account: string } }

/** The account's own key for parameters, where none is named. */
export const DEFAULT_KMS_KEY = 'alias/aws/ssm'

export function parseKmsKey(text: string): KmsKey | undefined {
  if (!KMS_KEY.test(text)) return undefined
  if (!text.startsWith('arn:')) return named(text)
  const [, , , region = '', account = '', resource = ''] = text.split(':')
  return { ...named(resource.replace(/^key\//, '')), place: { region, account } }
}

function named(id: string): { kind: 'key' | 'alias'; id: string } {
  return { kind: id.startsWith('alias/') ? 'alias' : 'key', id }
}

/**
 * The resource that a policy names for a key. An alias is none, so all keys of its account stand for it.
 * @param place of the account that the parameters are in
 */
export function kmsResource(
  key: string | undefined,
  place: { partition: string; region: string; account: string },
): string {
  const parsed = key === undefined ? undefined : parseKmsKey(key)
  const account = parsed?.place?.account ?? place.account
  const id = parsed?.kind === 'key' ? parsed.id : '*'
  return `arn:${place.partition}:kms:${place.region}:${account}:key/${id}`
}

/**
 * Whether a listing shows another key than the one that was asked for. The store shows what it was given, so an alias beside
 * an id says nothing, and an id is the same with and without the ARN around it.
 */
export function isOtherKey(asked: string | undefined, listed: string | undefined): boolean {
  const a = parseKmsKey(asked ?? DEFAULT_KMS_KEY)
  const b = parseKmsKey(listed ?? DEFAULT_KMS_KEY)
  return a !== undefined && b !== undefined && a.kind === b.kind && a.id !== b.id
}
