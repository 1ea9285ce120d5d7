import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { CHROMIUM, findProgram } from '../find-program.mjs'
import { SetupError } from './setup-error.mjs'

/**
 * Programs that tests call in addition to Node: the alternative names, the Debian package and the use of each; `service` is what
 * the package starts.
 */
const TOOLS = [
  { programs: ['openssl'], debianPackage: 'openssl', use: 'certificates of test receivers' },
  { programs: ['curl'], debianPackage: 'curl', use: 'the commands in the documentation' },
  { programs: ['jq'], debianPackage: 'jq', use: 'the commands in the documentation' },
  { programs: ['docker-registry'], debianPackage: 'docker-registry', use: 'a registry to bake from' },
  { programs: ['htpasswd'], debianPackage: 'apache2-utils', use: 'the passwords of that registry' },
  { programs: ['skopeo'], debianPackage: 'skopeo', use: 'pulling images like a bake' },
  {
    programs: ['promtool'],
    debianPackage: 'prometheus',
    use: 'alert rules',
    service: 'prometheus',
  },
  {
    programs: ['prometheus'],
    debianPackage: 'prometheus',
    use: 'reading the metrics',
    service: 'prometheus',
  },
  { programs: ['podman'], debianPackage: 'podman', use: 'pulling images like a box' },
  { programs: ['go'], debianPackage: 'golang-go', use: 'the kubelet code that requests credentials' },
  { programs: CHROMIUM, debianPackage: 'chromium', use: 'the rendered page /docs' },
]

const APT_LIMIT_MS = 5 * 60_000

/** Installs missing programs if possible (root on Debian and similar systems), otherwise lists them. */
export function ensureTestTools() {
  const missing = TOOLS.filter(isMissing)
  if (missing.length === 0) return
  if (process.getuid?.() === 0 && findProgram(['apt-get']) !== undefined) installWithApt(missing)
  const still = missing.filter(isMissing)
  if (still.length === 0) return
  const list = still.map(({ programs: [name], use }) => `  ${name} (${use})`).join('\n')
  const packages = [...new Set(still.map(({ debianPackage }) => debianPackage))].join(' ')
  throw new SetupError(
    `the tests need programs that are not installed:\n${list}\n  On Debian, run: apt-get install ${packages}`,
  )
}

function isMissing({ programs }) {
  return findProgram(programs) === undefined
}

function installWithApt(missing) {
  const packages = [...new Set(missing.map(({ debianPackage }) => debianPackage))]
  console.error(`davit: installing packages for the tests: ${packages.join(' ')}`)
  apt(['update', '-qq'])
  apt(['install', '-y', '-qq', '--no-install-recommends', ...packages])
  for (const { service } of missing) if (service !== undefined) stopService(service)
}

/** A package may start its service; the tests start their own. Without a service manager none was started. */
function stopService(name) {
  if (existsSync('/run/systemd/system'))
    spawnSync('systemctl', ['disable', '--now', name], { stdio: 'ignore' })
}

/** A failure is ignored here: the caller checks afterwards whether the program is there. */
function apt(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const result = spawnSync('apt-get', args, { env, encoding: 'utf8', timeout: APT_LIMIT_MS })
  if (result.status !== 0)
    console.error(`davit: apt-get ${args[0]} failed:\n${result.stderr ?? ''}`.trimEnd())
}
