import { type BoxTemplate, boxTemplate, boxTemplates, TEMPLATE_LABEL } from '../apis/box-template.ts'
import { jobs, pods } from '../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../apis/ids.ts'
import { type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { bakeSelector } from '../boxes/controller/bake-job.ts'
import { isBaking, TemplateReconciler, templateKey } from '../boxes/controller/controller.ts'
import { createTemplateWriter } from '../boxes/controller/gather.ts'
import { BakeSlots, templatesOverQuota } from '../boxes/controller/limits.ts'
import { Informer, type InformerDependencies } from '../kube/informer.ts'
import { MutationCache } from '../kube/mutation-cache.ts'
import type { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './dependencies.ts'

/** What is watched for bakes: templates, and, where there are bakes, the Jobs and pods that carry the label of one. */

/** Not started. */
function createBoxWatches(
  parts: BoxComponents,
  needs: InformerDependencies,
  bakes: boolean,
): Informer<unknown>[] {
  const templates = new Informer(
    {
      type: boxTemplates,
      decode: (raw) => boxTemplate.parse(raw),
      handler: {
        applied: (object) => parts.templates.apply(object),
        deleted: (object) => parts.templates.remove(object),
      },
    },
    needs,
  )
  const runs = bakes ? [ofBakes(jobs, parts, needs), ofBakes(pods, parts, needs)] : []
  return [templates, ...runs] as Informer<unknown>[]
}

/** Only whose they are is held: the loop reads them itself. */
function ofBakes(
  type: ResourceType,
  parts: BoxComponents,
  needs: InformerDependencies,
): Informer<ObjectMeta> {
  const tell = (metadata: ObjectMeta) => wakeTemplate(parts, metadata)
  return new Informer(
    {
      type,
      query: { labelSelector: bakeSelector() },
      decode: (raw) => objectMeta.parse(raw.metadata),
      handler: { applied: tell, deleted: tell },
    },
    needs,
  )
}

/** A namespace that is no organization has no bakes, whatever labels there are in it. */
function wakeTemplate(parts: BoxComponents, { namespace = '', labels }: ObjectMeta): void {
  const name = labels?.[TEMPLATE_LABEL]
  if (name === undefined || parts.organizations.get(namespace) === undefined) return
  if (parts.templates.get(namespace, name)) parts.templateLoop.add(`${namespace}/${name}`)
}

/** The part of the controller that bakes the templates of organizations. */

export type BoxControllerOptions = {
  config: Pick<Config, 'bake'>
  world: Pick<ControllerDependencies, 'api' | 'clock' | 'random' | 'log' | 'metrics' | 'events'>
  organizations: Organizations
  /** Of all organizations, as the loop of credentials knows them. */
  credentials: MutationCache<RegistryCredential>
}

type BoxComponents = {
  organizations: Organizations
  templates: MutationCache<BoxTemplate>
  templateLoop: ReconcileLoop
  slots: BakeSlots
}

export type BoxController = {
  parts: BoxComponents
  /** To be started and synced before `start`. */
  watches: readonly Informer<unknown>[]
  start(): void
  stop(): Promise<void>
}

const TEMPLATES_AT_A_TIME = 16

export function createBoxController(options: BoxControllerOptions): BoxController {
  const parts = createParts(options)
  const watches = createBoxWatches(parts, options.world, options.config.bake.image !== undefined)
  wake(parts, options.credentials)
  return {
    parts,
    watches,
    start: () => void parts.templateLoop.start(),
    async stop() {
      await parts.templateLoop.stop()
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}

function createParts({ config, world, organizations }: BoxControllerOptions): BoxComponents {
  const templates = new MutationCache<BoxTemplate>()
  const turns = new BakeSlots(config.bake.limits, (key) => templateLoop.add(key))
  const reconciler = new TemplateReconciler({
    ...world,
    resources: world.api,
    book: templates,
    writer: createTemplateWriter(world.api, templates),
    organizations,
    settings: config.bake,
    slots: turns,
  })
  const templateLoop = new ReconcileLoop({
    ...world,
    name: 'box-template',
    reconciler,
    concurrency: TEMPLATES_AT_A_TIME,
  })
  return { organizations, templates, templateLoop, slots: turns }
}

/** Changes of what a bake depends on. */
function wake(
  { organizations, templates, templateLoop, slots }: BoxComponents,
  credentials: MutationCache<RegistryCredential>,
): void {
  const add = (template: BoxTemplate) => templateLoop.add(templateKey(template))
  templates.listen((template) => {
    // Before the first pass: what a process before this one began has its turn.
    if (isBaking(template)) slots.occupy(templateKey(template))
    add(template)
    const { namespace = '', name, deletionTimestamp } = template.metadata
    if (deletionTimestamp !== undefined || templates.get(namespace, name) === undefined)
      for (const other of templatesOverQuota(templates, template)) add(other)
  })
  organizations.listen((name) => {
    for (const template of templates.in(name)) add(template)
  })
  // What the loop of credentials writes is what a template waits for.
  credentials.observe(({ metadata: { namespace = '', name } }) => {
    const id = `${CREDENTIAL_PREFIX}${name}`
    for (const template of templates.in(namespace))
      if (template.spec.services.some((service) => service.registryCredentialId === id)) add(template)
  })
}
