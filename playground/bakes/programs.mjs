// The programs that bakes need in addition to Node. In plain JavaScript, since the set-up looks for them before there is a Node that
// strips types.

import { findProgram } from '../../tools/find-program.mjs'

const PROGRAMS = [
  { program: 'docker-registry', debianPackage: 'docker-registry' },
  { program: 'htpasswd', debianPackage: 'apache2-utils' },
  { program: 'skopeo', debianPackage: 'skopeo' },
  { program: 'setpriv', debianPackage: 'util-linux' },
]

export function missingBakePrograms() {
  return PROGRAMS.filter(({ program }) => findProgram([program]) === undefined)
}

/** Whether the playground may install Debian packages. */
export function mayInstallPackages(isRoot = process.getuid?.() === 0) {
  return isRoot && findProgram(['apt-get']) !== undefined
}
