/** The chart's `config`: the operator's settings as values, with the schemas of the environment variables that they become. */
import { z } from 'zod'
import { processVariables } from '../../../src/cmd/config.ts'
import { bakePodVariables } from '../../../src/cmd/setting-parsers.ts'

/** Settings that have values of their own, in the section `bakes`. */
const BAKE_PODS = Object.keys(bakePodVariables).filter((name) => name !== 'DAVIT_BAKE_IMAGE_PULL_POLICY')

/** Settings that the chart itself sets, and secrets, which come from a Secret. */
const NOT_VALUES: ReadonlySet<string> = new Set([
  'KUBECONFIG',
  'DAVIT_NAMESPACE',
  'DAVIT_REPLICA',
  'DAVIT_API_ADDRESS',
  'DAVIT_OPS_ADDRESS',
  'DAVIT_API_CERTIFICATE_FILE',
  'DAVIT_API_KEY_FILE',
  'DAVIT_EXTRA_CA_FILE',
  'DAVIT_SMTP_URL',
  ...BAKE_PODS,
])

export type Setting = { variable: string; value: string }

/** Settings that are values, in the order of the program. */
export const settings: readonly Setting[] = Object.keys(processVariables.shape)
  .filter((variable) => !NOT_VALUES.has(variable))
  .map((variable) => ({ variable, value: valueName(variable) }))

/** Turns `DAVIT_MAX_PENDING` into `maxPending` and `AWS_ENDPOINT_URL` into `awsEndpointUrl`; the templates do the reverse. */
function valueName(variable: string): string {
  return variable
    .replace(/^DAVIT_/, '')
    .toLowerCase()
    .replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

const BYTE_LIMITS = [
  'DAVIT_MAX_LOG_BYTES',
  'DAVIT_MAX_OPEN_BYTES',
  'DAVIT_MAX_WRITTEN_BYTES',
  'DAVIT_MAX_FINISHED_BYTES',
] as const
const PENDING_LIMIT = 'DAVIT_MAX_PENDING'

/**
 * What Davit may take in etcd: values of the chart, each with the setting's own default. The chart holds the sum of `bytes` against the
 * quota, and also that with the objects of `pending` deliveries.
 */
export function storeLimits(): Record<'bytes' | 'pending', Record<string, number>> {
  const { shape } = processVariables
  return {
    bytes: Object.fromEntries(BYTE_LIMITS.map((name) => [valueName(name), shape[name].parse(undefined)])),
    pending: { [valueName(PENDING_LIMIT)]: shape[PENDING_LIMIT].parse(undefined) },
  }
}

/** @param about returns the description of a setting */
export function configValues(about: (variable: string) => string) {
  const shape = new Map<string, z.ZodType>(Object.entries(processVariables.shape))
  const values = settings.flatMap(({ variable, value }) => {
    const setting = shape.get(variable)
    return setting === undefined ? [] : [[value, setting.optional().meta({ description: about(variable) })]]
  })
  return z.strictObject(Object.fromEntries(values) as Record<string, z.ZodType>)
}
