/** Builds the loop that bakes the templates of organizations. `controller.ts` connects it to the watches. */
import type { BoxTemplate } from '../apis/box-template.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { TemplateReconciler } from '../boxes/controller/controller.ts'
import { BakeSlots } from '../boxes/controller/limits.ts'
import { MutationCache } from '../kube/mutation-cache.ts'
import type { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

export type BoxOptions = {
  config: Pick<Config, 'bake'>
  dependencies: Pick<ControllerDependencies, 'api' | 'clock' | 'random' | 'log' | 'metrics' | 'events'>
  organizations: Organizations
  /** Those of all organizations, as the credential controller knows them. */
  credentials: MutationCache<RegistryCredential>
}

export type BoxLoop = ReturnType<typeof buildBoxLoop>

const TEMPLATES_AT_A_TIME = 16

export function buildBoxLoop({ config, dependencies, organizations }: BoxOptions) {
  const templates = new MutationCache<BoxTemplate>()
  const slots = new BakeSlots(config.bake.limits, (key) => templateLoop.add(key))
  const reconciler = new TemplateReconciler({
    ...dependencies,
    resources: dependencies.api,
    book: templates,
    organizations,
    settings: config.bake,
    slots,
  })
  const templateLoop: ReconcileLoop = new ReconcileLoop({
    ...dependencies,
    name: 'box-template',
    reconciler,
    concurrency: TEMPLATES_AT_A_TIME,
  })
  return { templates, templateLoop, slots }
}
