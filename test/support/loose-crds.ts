import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import type { CustomResourceDefinition } from '../../tools/docgen/crd.ts'

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))

const ANYTHING = { 'x-kubernetes-preserve-unknown-fields': true }

/**
 * Installs Davit's kinds without any validation of spec and status, so that tests can store objects of older or newer versions.
 */
export async function installLooseCrds(controlPlane: Pick<ControlPlane, 'access'>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'davit-loose-crds-'))
  try {
    for (const file of await readdir(CRDS)) {
      const definition = parse(await readFile(join(CRDS, file), 'utf8')) as CustomResourceDefinition
      await writeFile(join(dir, file), stringify(loosened(definition)))
    }
    await installCrds(controlPlane, dir)
  } finally {
    await rm(dir, { recursive: true })
  }
}

/** Without selectable fields, which need a type. */
function loosened({ spec, ...definition }: CustomResourceDefinition) {
  const versions = spec.versions.map(({ selectableFields, schema, ...version }) => ({
    ...version,
    schema: { openAPIV3Schema: { type: 'object', properties: { spec: ANYTHING, status: ANYTHING } } },
  }))
  return { ...definition, spec: { ...spec, versions } }
}
