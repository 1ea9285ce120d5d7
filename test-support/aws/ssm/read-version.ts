import type { Parameter, ParameterVersion } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import type { Call } from '../call.ts'
import { authorizeKey } from '../kms/authorize-key.ts'
import { storeOf } from './parameter-access.ts'

/** @param selector version number or label; absent: the latest @throws AwsError ParameterVersionNotFound */
export function selectVersion({ name, versions }: Parameter, selector: string | undefined): ParameterVersion {
  const version =
    selector === undefined
      ? versions.at(-1)
      : versions.find((one) => String(one.version) === selector || one.labels.includes(selector))
  if (version) return version
  throw AwsError.coded(
    'ParameterVersionNotFound',
    `Systems Manager could not find version ${selector} of ${name}. Verify the version and try again.`,
  )
}

/** The value as this caller receives it. @throws AwsError if the caller cannot use the key */
export function valueFor(call: Call, name: string, version: ParameterVersion, decrypts: boolean): string {
  const { type, value, ciphertext, keyId } = version
  if (type !== 'SecureString') return value
  if (!decrypts) return ciphertext ?? ''
  const store = storeOf(call)
  const key = store.keys.find(keyId ?? '')
  if (key?.state !== 'Enabled') throw AwsError.coded('InvalidKeyId', `${key?.arn ?? keyId} cannot be used.`)
  authorizeKey(call, key, 'kms:Decrypt', store.arn(name))
  return value
}

/** A parameter in the form of an answer. */
export function parameterOutput(
  call: Call,
  parameter: Parameter,
  selector: string | undefined,
  decrypts: boolean,
) {
  const version = selectVersion(parameter, selector)
  return {
    Name: parameter.name,
    Type: version.type,
    Value: valueFor(call, parameter.name, version, decrypts),
    Version: version.version,
    Selector: selector === undefined ? undefined : `:${selector}`,
    LastModifiedDate: version.modifiedAt / 1000,
    ARN: storeOf(call).arn(parameter.name),
    DataType: 'text',
  }
}
