/** Checks out the program of another commit of this repository: the version before an upgrade, or after a downgrade. */
import { execFile } from 'node:child_process'
import { mkdtemp, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const MAX_ERROR_BYTES = 1024 ** 2

/**
 * Uses the libraries that are installed here.
 * @param ref of a commit with the same libraries
 * @returns the path of its entry point
 * @throws Error if there is no such commit
 */
export async function programOf(ref: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-version-'))
  const run = promisify(execFile)
  const archive = join(folder, 'source.tar')
  await run('git', ['-C', ROOT, 'archive', '--output', archive, ref], { maxBuffer: MAX_ERROR_BYTES })
  await run('tar', ['-xf', archive, '-C', folder])
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'src', 'main.ts')
}
