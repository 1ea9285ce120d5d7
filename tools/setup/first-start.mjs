// What `npm start` is about to install, in words, and whether to ask first. Decisions only: playground.mjs acts on them.

/** As measured on two cores; ranges, since the network decides. */
const MINUTES = { packages: [1, 2], download: [1, 2], downloadOrBuild: [1, 5] }
const LATER_START = 'Later starts install nothing and take about 15 seconds.'
const LABEL = 19

/**
 * @typedef {object} Missing
 * @property {boolean} packages whether npm has to install its packages
 * @property {{ cache: string, hasGo: boolean } | undefined} controlPlane undefined if its programs are there
 * @property {readonly string[]} debianPackages those that will be installed
 */

/** @param {Missing} missing */
export function isComplete({ packages, controlPlane, debianPackages }) {
  return !packages && controlPlane === undefined && debianPackages.length === 0
}

/**
 * Lines for a terminal of 80 columns, except for longer paths.
 *
 * @param {Missing} missing at least one thing
 * @returns {string[]}
 */
export function describe(missing) {
  const { packages, controlPlane, debianPackages } = missing
  return [
    'Before the playground starts, this installs:',
    '',
    ...(packages ? item('npm packages', '300 MB to download, 700 MB on disk, in node_modules') : []),
    ...(controlPlane === undefined ? [] : aboutControlPlane(controlPlane)),
    ...(debianPackages.length === 0 ? [] : aboutDebian(debianPackages)),
    '',
    `${duration(missing)} ${LATER_START}`,
  ]
}

function aboutControlPlane({ cache, hasGo }) {
  const withoutGitHub = hasGo
    ? 'built from 100 MB of Go modules, 4 minutes'
    : 'not available, Go is not installed'
  return item(
    'control plane',
    'etcd, kube-apiserver, kubectl: 70 MB from GitHub',
    `without GitHub: ${withoutGitHub}`,
    `stored in ${cache}`,
  )
}

function aboutDebian(packages) {
  return item(
    'Debian packages',
    `${packages.join(', ')}: 15 MB`,
    'with apt-get, as root, in the background',
    'needed only for the two example bakes',
  )
}

function item(label, ...lines) {
  return lines.map((line, index) => `  ${(index === 0 ? label : '').padEnd(LABEL)}${line}`)
}

function duration({ packages, controlPlane }) {
  const parts = [
    ...(packages ? [MINUTES.packages] : []),
    ...(controlPlane === undefined ? [] : [controlPlane.hasGo ? MINUTES.downloadOrBuild : MINUTES.download]),
  ]
  if (parts.length === 0) return 'The playground does not wait for this.'
  const sum = (index) => parts.reduce((total, minutes) => total + minutes[index], 0)
  return `Expect ${sum(0)} to ${sum(1)} minutes.`
}

/**
 * Why to continue without a question; undefined if the user has to be asked.
 *
 * @param {{ yes: boolean, ci: string | undefined, isTerminal: boolean }} situation
 */
export function reasonNotToAsk({ yes, ci, isTerminal }) {
  if (yes) return '--yes is set'
  if (!['', '0', 'false', undefined].includes(ci)) return 'CI is set'
  if (!isTerminal) return 'there is no terminal'
  return undefined
}

/**
 * @param {string | undefined} line undefined at the end of the input
 * @returns {boolean | undefined} undefined if it is neither yes nor no
 */
export function answerOf(line) {
  if (line === undefined) return false
  const word = line.trim().toLowerCase()
  if (['', 'y', 'yes'].includes(word)) return true
  return ['n', 'no'].includes(word) ? false : undefined
}

/**
 * What to do instead.
 *
 * @param {Missing} missing
 * @returns {string[]}
 */
export function afterNo({ controlPlane, debianPackages }) {
  return [
    'Nothing was installed, and the playground did not start. You can run:',
    ...(debianPackages.length === 0
      ? []
      : ['  npm start -- --no-bakes               no Debian packages, no example bakes']),
    ...(controlPlane === undefined
      ? []
      : ['  KUBEBUILDER_ASSETS=FOLDER npm start   your own etcd, kube-apiserver, kubectl']),
    '  npm start -- --yes                    installs this without a question',
  ]
}
