/** The parts of the contract that are documents of the repository, flattened so that a difference names its path. */
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse } from 'yaml'
import { flatten } from './flatten.ts'
import { ROOT } from './root.ts'

/** Every line begins with the plural of its kind. */
export function crdLines(): string[] {
  return [...definitions().values()].flatMap(({ plural, definition }) => flatten(definition, plural))
}

/** By the name of the object. */
export function definitions(): ReadonlyMap<string, { plural: string; definition: unknown }> {
  const paths = globSync('crds/*.yaml', { cwd: ROOT })
  return new Map(
    paths.map((path) => {
      const definition: unknown = parse(readFileSync(join(ROOT, path), 'utf8'))
      const [group, plural] = basename(path, '.yaml').split('_')
      return [`${plural}.${group}`, { plural: plural ?? path, definition }]
    }),
  )
}

export function openApiLines(): string[] {
  return flatten(JSON.parse(readFileSync(join(ROOT, 'docs/reference/openapi.json'), 'utf8')))
}

/** The values that the chart accepts, and their defaults. */
export function chartValueLines(): string[] {
  const schema: unknown = JSON.parse(readFileSync(join(ROOT, 'charts/davit/values.schema.json'), 'utf8'))
  const values: unknown = parse(readFileSync(join(ROOT, 'charts/davit/values.yaml'), 'utf8'))
  return [...flatten(schema, 'schema'), ...flatten(values, 'default')]
}
