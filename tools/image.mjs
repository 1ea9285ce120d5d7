// Builds the image of Davit without access to a registry, as an OCI layout: buildah builds the Dockerfile on base images that are
// made here from Debian's packages and this machine's npm. The same packages and the same commit make the same image.
//
//   node tools/image.mjs --out FOLDER [--suite trixie] [--epoch SECONDS]
//   skopeo copy oci:FOLDER:davit docker://registry.example.com/davit:0.1.0
//
// It needs root on Debian with the packages buildah, mmdebstrap and git, and npm. If registries can be reached, use
// `docker build .` instead.

import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { takeCommitted } from './committed-files.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** What the Dockerfile copies. */
const FILES = [
  'Dockerfile',
  'package.json',
  'package-lock.json',
  '.npmrc',
  'LICENSE',
  'bin',
  'src',
  '.dockerignore',
]
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const BASE = 'localhost/davit-base'
const BUILD = 'localhost/davit-build'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    suite: { type: 'string', default: 'trixie' },
    epoch: { type: 'string', default: run('git', ['log', '-1', '--format=%ct'], ROOT).trim() },
  },
})
if (values.out === undefined) throw new Error('--out is required')
const { out, suite, epoch } = values
const work = mkdtempSync(join(tmpdir(), 'davit-image-'))
/**
 * A separate store, so that the images of this machine are neither used nor changed. Without mounts and namespaces, it works in
 * containers.
 */
const STORE = ['--root', join(work, 'storage'), '--runroot', join(work, 'run'), '--storage-driver', 'vfs']
try {
  makeBases()
  build(makeContext())
} finally {
  rmSync(work, { recursive: true, force: true })
}

function buildah(...args) {
  return run('buildah', [...STORE, ...args], work, { BUILDAH_ISOLATION: 'chroot' }).trim()
}

/** Debian as in its official image, and the same with npm and Node. */
function makeBases() {
  const archive = join(work, 'base.tar')
  const options = [
    '--variant=apt',
    '--quiet',
    '--include=libstdc++6',
    '--aptopt=APT::Install-Recommends "false"',
  ]
  const traces = '/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/* "$1"/etc/machine-id'
  run('mmdebstrap', [...options, `--customize-hook=rm -rf "$1"${traces}`, suite, archive], work, {
    SOURCE_DATE_EPOCH: epoch,
  })
  const container = buildah('from', 'scratch')
  buildah('add', '--quiet', container, archive, '/')
  buildah('commit', '--quiet', '--timestamp', epoch, container, BASE)
  buildah('add', '--quiet', container, makeNpm(), '/')
  buildah('commit', '--quiet', container, BUILD)
  buildah('rm', container)
}

/** @returns a folder with npm and Node; the build trusts the same certificate authorities as this machine */
function makeNpm() {
  const local = join(work, 'npm', 'usr', 'local')
  const modules = join(local, 'lib', 'node_modules')
  mkdirSync(join(local, 'bin'), { recursive: true })
  mkdirSync(join(local, 'etc'), { recursive: true })
  // The command is a link into the package.
  const command = realpathSync(run('sh', ['-c', 'command -v npm'], ROOT).trim())
  cpSync(dirname(dirname(command)), join(modules, 'npm'), { recursive: true })
  cpSync(process.execPath, join(local, 'bin', 'node'))
  writeFileSync(
    join(local, 'bin', 'npm'),
    '#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/npm-cli.js "$@"\n',
    {
      mode: 0o755,
    },
  )
  if (existsSync(CERTIFICATES)) {
    const there = join(work, 'npm', CERTIFICATES)
    mkdirSync(dirname(there), { recursive: true })
    cpSync(CERTIFICATES, there, { dereference: true })
    writeFileSync(join(local, 'etc', 'npmrc'), `cafile=${CERTIFICATES}\n`)
  }
  return join(work, 'npm')
}

/** @returns a folder with the committed files: uncommitted files never get into an image */
function makeContext() {
  const context = join(work, 'context')
  mkdirSync(context)
  const changed = takeCommitted(ROOT, FILES, context)
  if (changed.length > 0)
    console.error(
      `The image contains only committed files. It does not contain these changes:\n${changed.join('\n')}`,
    )
  return context
}

function build(context) {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const given = {
    BASE_IMAGE: BASE,
    BUILD_IMAGE: BUILD,
    VERSION: version,
    REVISION: run('git', ['rev-parse', 'HEAD'], ROOT).trim(),
    CREATED: new Date(Number(epoch) * 1000).toISOString(),
  }
  buildah(
    'bud',
    ...['--quiet', '--isolation', 'chroot', '--layers=false', '--pull-never', '--timestamp', epoch],
    ...Object.entries(given).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    ...['--tag', 'davit', context],
  )
  mkdirSync(out, { recursive: true })
  buildah('push', '--quiet', 'davit', `oci:${out}:davit`)
  const { manifests } = JSON.parse(readFileSync(join(out, 'index.json'), 'utf8'))
  const { digest } = manifests.at(-1)
  const { layers } = JSON.parse(readFileSync(join(out, 'blobs', 'sha256', digest.slice(7)), 'utf8'))
  const bytes = layers.reduce((sum, { size }) => sum + size, 0)
  console.log(`${digest}  ${Math.round(bytes / 2 ** 20)} MiB  ${out}`)
}

/** @returns its stdout; its stderr is passed through */
function run(program, args, cwd, environment = {}) {
  const options = {
    cwd,
    env: { ...process.env, ...environment },
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  }
  return execFileSync(program, args, options)
}
