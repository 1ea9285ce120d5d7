/** Source: SSM API Reference, PutParameter. */

import {
  DEFAULT_KEY,
  encrypt,
  type KmsKey,
  MAX_PARAMETERS,
  type Parameter,
  type ParameterType,
  type ParameterVersion,
  type Tier,
} from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { type Call, operation } from '../call.ts'
import { authorizeKey } from '../kms/authorize-key.ts'
import { authorizeParameter, requestTags, storeOf } from './parameter-access.ts'
import { checkName } from './parameter-name.ts'
import { type PutParameterInput, putParameterInput } from './put-parameter-input.ts'
import { withTags } from './tag-rules.ts'

const LARGEST_BYTES: Readonly<Record<Tier, number>> = { Standard: 4_096, Advanced: 8_192 }
const KEPT_VERSIONS = 100

export const putParameter = operation('PutParameter', {
  family: 'puts',
  input: putParameterInput,
  trailInput: ({ Value: _, ...rest }) => rest,
  changes: ({ Name }) => Name,
  run(call, input) {
    const store = storeOf(call)
    authorize(call, input)
    checkName(input.Name, store.arn(input.Name))
    checkValue(input.Value)
    if (input.Overwrite && input.Tags.length > 0) throw invalid(TAGS_AND_OVERWRITE)
    const before = store.get(input.Name)
    if (before && !input.Overwrite)
      throw AwsError.coded(
        'ParameterAlreadyExists',
        'The parameter already exists. To overwrite this value, set the overwrite option in the request to true.',
      )
    const last = before?.versions.at(-1)
    const type = typeOf(input, last)
    const tier = tierOf(call, input, last)
    if (last?.tier !== tier && store.count(tier) >= MAX_PARAMETERS[tier])
      throw AwsError.coded('ParameterLimitExceeded', 'Parameter limit exceeded.')
    const tags = before?.tags ?? withTags(new Map(), input.Tags)
    const kept = keptVersions(before)
    const secured = secure(call, input, type, tier)
    const version: ParameterVersion = {
      version: (last?.version ?? 0) + 1,
      type,
      value: input.Value,
      ...secured,
      description: input.Description ?? last?.description,
      tier,
      labels: [],
      modifiedAt: call.now,
      modifiedBy: call.principal.arn,
    }
    store.put({ name: input.Name, versions: [...kept, version], tags }, call.now)
    return { Version: version.version, Tier: tier }
  },
})

/** Creating a parameter with tags also needs the permission to tag it. */
function authorize(call: Call, { Name, Overwrite, Tags }: PutParameterInput): void {
  const extra = { 'ssm:Overwrite': String(Overwrite), ...requestTags(Tags) }
  authorizeParameter(call, 'ssm:PutParameter', Name, extra)
  if (Tags.length > 0) authorizeParameter(call, 'ssm:AddTagsToResource', Name, requestTags(Tags))
}

function checkValue(value: string): void {
  if (value.length === 0)
    throw invalid(
      "1 validation error detected: Value at 'value' failed to satisfy constraint: Member must have length greater than or equal to 1",
    )
  if (/\{\{[\s\S]*\}\}/.test(value))
    throw invalid('Parameter value can\'t nest another parameter. Do not use "{{}}" in the value.')
}

function typeOf({ Type, KeyId }: PutParameterInput, last: ParameterVersion | undefined): ParameterType {
  const type = Type ?? last?.type
  if (!type) throw invalid('A parameter type is required when you create a parameter.')
  if (last && type !== last.type)
    throw AwsError.coded(
      'HierarchyTypeMismatchException',
      `The parameter type cannot change from ${last.type} to ${type}.`,
    )
  if (KeyId !== undefined && type !== 'SecureString')
    throw invalid('KeyId is required for SecureString type parameter only.')
  return type
}

/** An advanced parameter stays advanced. */
function tierOf(call: Call, { Value, Tier }: PutParameterInput, last: ParameterVersion | undefined): Tier {
  const size = Buffer.byteLength(Value)
  const wanted = Tier ?? last?.tier ?? storeOf(call).defaultTier
  const fitting = size > LARGEST_BYTES.Standard || last?.tier === 'Advanced' ? 'Advanced' : 'Standard'
  const tier = wanted === 'Intelligent-Tiering' ? fitting : wanted
  if (tier === 'Standard' && last?.tier === 'Advanced')
    throw invalid(
      "This parameter uses the advanced-parameter tier. You can't downgrade a parameter from the advanced-parameter tier to the standard-parameter tier.",
    )
  if (size > LARGEST_BYTES[tier])
    throw invalid(
      `${tier} tier parameters support a maximum parameter value of ${LARGEST_BYTES[tier]} characters.` +
        (tier === 'Standard'
          ? ' To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier.'
          : ''),
    )
  return tier
}

/** Drops the oldest version to make space for another, unless it has a label. */
function keptVersions(before: Parameter | undefined): readonly ParameterVersion[] {
  const versions = before?.versions ?? []
  const [oldest, ...others] = versions
  if (!oldest || versions.length < KEPT_VERSIONS) return versions
  if (oldest.labels.length > 0)
    throw AwsError.coded(
      'ParameterMaxVersionLimitExceeded',
      `You attempted to create a new version of ${before?.name} by calling the PutParameter API with the overwrite flag. ` +
        `Version ${oldest.version}, the oldest version, can't be deleted because it has a label associated with it. ` +
        'Move the label to another version of the parameter, and try again.',
    )
  return others
}

/** An overwrite without a key returns to the default key. */
function secure(call: Call, { Name, Value, KeyId }: PutParameterInput, type: ParameterType, tier: Tier) {
  if (type !== 'SecureString') return { ciphertext: undefined, keyId: undefined }
  const keyId = KeyId ?? DEFAULT_KEY
  const key = usableKey(call, keyId)
  authorizeKey(
    call,
    key,
    tier === 'Standard' ? 'kms:Encrypt' : 'kms:GenerateDataKey',
    storeOf(call).arn(Name),
  )
  return { ciphertext: encrypt(key, Value), keyId }
}

function usableKey(call: Call, keyId: string): KmsKey {
  const key = storeOf(call).keys.find(keyId)
  if (!key) throw AwsError.coded('InvalidKeyId', `Invalid keyId ${keyId}`)
  if (!key.isSymmetric) throw AwsError.coded('InvalidKeyId', `${key.arn} is not a symmetric encryption key`)
  if (key.state !== 'Enabled')
    throw AwsError.coded(
      'InvalidKeyId',
      `${key.arn} is ${key.state === 'Disabled' ? 'disabled' : 'pending deletion'}.`,
    )
  return key
}

const TAGS_AND_OVERWRITE =
  "Invalid request: tags and overwrite can't be used together. To create a parameter with tags, please remove overwrite flag. " +
  'To update tags for an existing parameter, please use AddTagsToResource or RemoveTagsFromResource.'

function invalid(message: string): AwsError {
  return AwsError.of('validation', message)
}
