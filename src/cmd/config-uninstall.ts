/** Settings of `davit stop` and `davit cleanup`, which the chart runs when it is uninstalled: what belongs to the release. */
import { z } from 'zod'
import type { Environment } from './config.ts'
import { parseVariables } from './config-command.ts'
import { DNS_LABEL, integer, matching } from './config-values.ts'

const name = matching(DNS_LABEL, 'must be a name of Kubernetes')

const variables = z.object({
  DAVIT_RELEASE: matching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'must be the value of a label'),
  DAVIT_RELEASE_DEPLOYMENTS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(z.array(name).max(10)),
  DAVIT_RELEASE_SECONDS: integer(1, 7200, 120),
})

/** What other settings are read from. */
export function withoutUninstallVariables(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([key]) => !Object.hasOwn(variables.shape, key)),
  )
}

export type UninstallConfig = {
  /** Of the pods of both roles. */
  podSelector: string
  deployments: string[]
  /** How long pods are waited for. */
  limitMs: number
}

/** @throws ConfigError with every mistake */
export function parseUninstallConfig(environment: Environment): UninstallConfig {
  const data = parseVariables(variables, environment)
  return {
    podSelector: `app.kubernetes.io/name=davit,app.kubernetes.io/instance=${data.DAVIT_RELEASE},app.kubernetes.io/component in (controller,api)`,
    deployments: data.DAVIT_RELEASE_DEPLOYMENTS,
    limitMs: data.DAVIT_RELEASE_SECONDS * 1000,
  }
}
