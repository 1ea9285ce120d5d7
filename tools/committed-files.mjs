/** Copies the last committed version of files, whatever the working tree contains. */
import { execFileSync } from 'node:child_process'

/**
 * @param {string} root of the repository
 * @param {readonly string[]} paths files and folders in it
 * @param {string} into an existing folder
 * @returns the uncommitted changes of these paths in the format of git; they are not copied
 */
export function takeCommitted(root, paths, into) {
  const git = (...args) => execFileSync('git', args, { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync('tar', ['-xf', '-', '-C', into], {
    input: git('archive', '--format=tar', 'HEAD', '--', ...paths),
  })
  const changed = git('status', '--porcelain', '--', ...paths).toString('utf8')
  return changed.split('\n').filter((line) => line !== '')
}
