/** Files of a repository as they were committed last, whatever the tree has. */
import { execFileSync } from 'node:child_process'

/**
 * @param {string} root of the repository
 * @param {readonly string[]} paths files and folders in it
 * @param {string} into a folder that is there
 * @returns what of them in the tree is not what was committed, as git says it; none of it is taken
 */
export function takeCommitted(root, paths, into) {
  const git = (...args) => execFileSync('git', args, { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync('tar', ['-xf', '-', '-C', into], {
    input: git('archive', '--format=tar', 'HEAD', '--', ...paths),
  })
  const changed = git('status', '--porcelain', '--', ...paths).toString('utf8')
  return changed.split('\n').filter((line) => line !== '')
}
