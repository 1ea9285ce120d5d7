/** The part of the controller that bakes the templates of organizations. */
import type { BoxTemplate } from '../apis/box-template.ts'
import { CREDENTIAL_PREFIX } from '../apis/identifiers.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { isBaking, templateKey } from '../boxes/controller/bake-pass.ts'
import { BakeSlots } from '../boxes/controller/limits.ts'
import { TemplateReconciler } from '../boxes/controller/reconcile-template.ts'
import { templatesOverQuota } from '../boxes/controller/template-room.ts'
import { createTemplateWriter } from '../boxes/controller/template-writer.ts'
import type { Informer } from '../kube/informer.ts'
import { MutationCache } from '../kube/mutation-cache.ts'
import type { Organizations } from '../kube/organizations.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { createBoxWatches } from './bake-watches.ts'
import type { Config } from './config.ts'
import type { ControllerDependencies } from './world-types.ts'

export type BoxControllerOptions = {
  config: Pick<Config, 'bake'>
  world: Pick<ControllerDependencies, 'api' | 'clock' | 'random' | 'log' | 'metrics' | 'events'>
  organizations: Organizations
  /** Of all organizations, as the loop of credentials knows them. */
  credentials: MutationCache<RegistryCredential>
}

export type BoxComponents = {
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
