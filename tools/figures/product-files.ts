import { globSync, readFileSync } from 'node:fs'
import { matchesGlob } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Folders of src outside of the product; the same patterns apply to checkouts without them. */
const NOT_PRODUCT = ['src/playground/**', 'src/tools/**', 'src/**/*.test.ts']

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** @param path from the root of the repository, with `/` */
export function isProduct(path: string): boolean {
  return matchesGlob(path, 'src/**/*.ts') && !NOT_PRODUCT.some((pattern) => matchesGlob(path, pattern))
}

/** The sources of the product by path from the root, in alphabetical order. */
export function readProduct(): Map<string, string> {
  const paths = globSync('src/**/*.ts', { cwd: ROOT })
    .map((path) => path.replaceAll('\\', '/'))
    .filter(isProduct)
    .sort()
  return new Map(paths.map((path) => [path, readFileSync(`${ROOT}${path}`, 'utf8')]))
}
