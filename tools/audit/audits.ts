/** Which audits cover the dependencies of the repository: one for each lock file of npm, and one for each Go module. */
import { basename, dirname } from 'node:path/posix'

export type Audit = {
  title: string
  command: readonly [program: string, ...args: string[]]
  /** From the root of the repository. */
  folder: string
}

/** Of the programs that Davit ships, everything from here on fails the audit. */
const SHIPPED = 'moderate'
/** Of what only builds and tests it. */
const TOOLS = 'high'

/** Nothing of these modules is built: only files of them are read. */
const UNBUILT: ReadonlySet<string> = new Set(['tools/chart-kinds'])

/**
 * @param files of the repository, as paths from its root
 * @param read the text of one
 */
export function auditsOf(files: readonly string[], read: (path: string) => string): Audit[] {
  const locks = files.filter((path) => basename(path) === 'package-lock.json').map((path) => dirname(path))
  const modules = files
    .filter((path) => basename(path) === 'go.mod')
    .map((path) => dirname(path))
    .filter((folder) => !UNBUILT.has(folder))
  return [
    npmAudit('.', 'npm packages of the image', ['--omit=dev', `--audit-level=${SHIPPED}`]),
    ...locks.map((folder) => npmAudit(folder, `npm packages of ${folder}`, [`--audit-level=${TOOLS}`])),
    ...modules.map((folder) => goAudit(folder, read(`${folder}/go.mod`))),
  ]
}

function npmAudit(folder: string, title: string, options: readonly string[]): Audit {
  return { title, folder, command: ['npm', 'audit', ...options] }
}

/** Reports a vulnerability only if a program can call it. A module of tools has no packages of its own. */
function goAudit(folder: string, module: string): Audit {
  const packages = /^tool\b/m.test(module) ? 'tool' : './...'
  return {
    title: `Go modules of ${folder}`,
    folder: 'tools/audit',
    command: ['go', 'tool', 'govulncheck', '-C', `../../${folder}`, packages],
  }
}
