/** The part of the controller that bakes the templates of organizations. */
import type { BoxTemplate } from '../api/box-template.ts'
import { CREDENTIAL_PREFIX } from '../api/identifiers.ts'
import type { RegistryCredential } from '../api/registry-credential.ts'
import type { Config } from '../config.ts'
import { isUnderWay, keyOfTemplate } from '../controllers/box-template/bake-pass.ts'
import { BakeTurns } from '../controllers/box-template/bake-turns.ts'
import { TemplateReconciler } from '../controllers/box-template/reconcile-template.ts'
import { beyondIn } from '../controllers/box-template/template-room.ts'
import { createTemplateWriter } from '../controllers/box-template/template-writer.ts'
import type { Organizations } from '../controllers/organizations.ts'
import { ReconcileLoop } from '../runtime/reconcile-loop.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { VersionedBook } from '../runtime/versioned-book.ts'
import { createBakeWatches } from './bake-watches.ts'
import type { World } from './world-types.ts'

export type BakeRoleOptions = {
  config: Pick<Config, 'bake'>
  world: Pick<World, 'api' | 'clock' | 'random' | 'log' | 'metrics' | 'events'>
  organizations: Organizations
  /** Of all organizations, as the loop of credentials knows them. */
  credentials: VersionedBook<RegistryCredential>
}

export type BakeParts = {
  organizations: Organizations
  templates: VersionedBook<BoxTemplate>
  templateLoop: ReconcileLoop
  turns: BakeTurns
}

export type BakeRole = {
  parts: BakeParts
  /** To be started and synced before `start`. */
  watches: readonly Reflector<unknown>[]
  start(): void
  stop(): Promise<void>
}

const TEMPLATES_AT_A_TIME = 16

export function createBakeRole(options: BakeRoleOptions): BakeRole {
  const parts = createParts(options)
  const watches = createBakeWatches(parts, options.world, options.config.bake.image !== undefined)
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

function createParts({ config, world, organizations }: BakeRoleOptions): BakeParts {
  const templates = new VersionedBook<BoxTemplate>()
  const turns = new BakeTurns(config.bake.limits, (key) => templateLoop.add(key))
  const reconciler = new TemplateReconciler({
    ...world,
    resources: world.api,
    book: templates,
    writer: createTemplateWriter(world.api, templates),
    organizations,
    settings: config.bake,
    turns,
  })
  const templateLoop = new ReconcileLoop({
    ...world,
    name: 'box-template',
    reconciler,
    concurrency: TEMPLATES_AT_A_TIME,
  })
  return { organizations, templates, templateLoop, turns }
}

/** Changes of what a bake depends on. */
function wake(
  { organizations, templates, templateLoop, turns }: BakeParts,
  credentials: VersionedBook<RegistryCredential>,
): void {
  const add = (template: BoxTemplate) => templateLoop.add(keyOfTemplate(template))
  templates.listen((template) => {
    // Before the first pass: what a process before this one began has its turn.
    if (isUnderWay(template)) turns.hold(keyOfTemplate(template))
    add(template)
    const { namespace = '', name, deletionTimestamp } = template.metadata
    if (deletionTimestamp !== undefined || templates.get(namespace, name) === undefined)
      for (const other of beyondIn(templates, template)) add(other)
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
