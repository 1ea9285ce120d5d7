/** Source: SSM API Reference, data type ParameterStringFilter. */

import { z } from 'zod'
import type { Parameter, ParameterVersion } from '../account.ts'
import { AwsError } from '../aws-error.ts'

export const filterInput = z.strictObject({
  Key: z
    .string()
    .min(1)
    .max(132)
    .regex(/^(tag:.+|Name|Type|KeyId|Path|Label|Tier|DataType)$/),
  Option: z.string().min(1).max(10).optional(),
  Values: z.array(z.string().min(1).max(1_024)).min(1).max(50).optional(),
})

export type Filter = z.output<typeof filterInput>

const ENUMS: Readonly<Record<string, readonly string[]>> = {
  Type: ['String', 'StringList', 'SecureString'],
  Tier: ['Standard', 'Advanced', 'Intelligent-Tiering'],
}

/** @throws AwsError for filters that DescribeParameters does not accept */
export function checkFilters(filters: readonly Filter[]): void {
  const keys = filters.map(({ Key }) => Key)
  const twice = keys.find((key, index) => keys.indexOf(key) !== index)
  if (twice !== undefined)
    throw invalid('InvalidFilterKey', `The following filter is duplicated in the request: ${twice}.`)
  for (const filter of filters) checkFilter(filter)
}

function checkFilter({ Key, Option, Values }: Filter): void {
  if (Key === 'Label')
    throw invalid(
      'InvalidFilterKey',
      'The following filter key is not valid: Label. Valid filter keys include: [Path, Name, Type, KeyId, Tier].',
    )
  if (!Values && !Key.startsWith('tag:'))
    throw invalid(
      'InvalidFilterValue',
      `The following filter values are missing : null for filter key ${Key}.`,
    )
  const options =
    Key === 'Path'
      ? ['Recursive', 'OneLevel']
      : ['BeginsWith', 'Equals', ...(Key === 'Name' ? ['Contains'] : [])]
  if (Option !== undefined && !options.includes(Option))
    throw invalid(
      'InvalidFilterOption',
      `The following filter option is not valid: ${Option}. Valid options include: [${options.join(', ')}].`,
    )
  const wrong = ENUMS[Key] && Values?.find((value) => !ENUMS[Key]?.includes(value))
  if (wrong)
    throw invalid(
      'InvalidFilterValue',
      `The following filter value is not valid: ${wrong}. Valid values include: [${ENUMS[Key]?.join(', ')}].`,
    )
  if (Key === 'Path') Values?.forEach(checkPath)
}

/** Also for the path of GetParametersByPath. @throws AwsError */
export function checkPath(path: string): void {
  if (/^\/(aws|ssm)/i.test(path))
    throw AwsError.of(
      'validation',
      'Filters for common parameters can\'t be prefixed with "aws" or "ssm" (case-insensitive).',
    )
  if (!/^\/[A-Za-z0-9_.\-/]*$/.test(path) || path.includes('//'))
    throw AwsError.of(
      'validation',
      'The parameter doesn\'t meet the parameter name requirements. The parameter name must begin with a forward slash "/". ' +
        'All sub-paths, if specified, must use the forward slash symbol "/".',
    )
}

/** Whether all filters match; a filter matches if any of its values does. */
export function passes(parameter: Parameter, latest: ParameterVersion, filters: readonly Filter[]): boolean {
  return filters.every(({ Key, Option, Values }) => {
    if (Key === 'Path')
      return Values?.some((path) => isUnder(parameter.name, path, Option === 'Recursive')) ?? false
    const value = fieldOf(Key, parameter, latest)
    if (value === undefined) return false
    return Values?.some((wanted) => fits(value, wanted, Option)) ?? true
  })
}

/** Whether a name is in the hierarchy below a path; the path itself is not. */
export function isUnder(name: string, path: string, recursive: boolean): boolean {
  const parent = path.endsWith('/') ? path : `${path}/`
  if (!name.startsWith('/')) return path === '/' && (recursive || !name.includes('/'))
  return (
    name.startsWith(parent) &&
    name.length > parent.length &&
    (recursive || !name.slice(parent.length).includes('/'))
  )
}

function fieldOf(key: string, { name, tags }: Parameter, latest: ParameterVersion): string | undefined {
  if (key.startsWith('tag:')) return tags.get(key.slice('tag:'.length))
  const values: Record<string, string | undefined> = {
    Name: name,
    Type: latest.type,
    KeyId: latest.keyId,
    Tier: latest.tier,
    DataType: 'text',
  }
  return values[key]
}

function fits(value: string, wanted: string, option: string | undefined): boolean {
  if (option === 'BeginsWith') return value.startsWith(wanted)
  return option === 'Contains' ? value.includes(wanted) : value === wanted
}

function invalid(code: string, message: string): AwsError {
  return AwsError.coded(code, message)
}
