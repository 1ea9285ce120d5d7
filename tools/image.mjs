// The image of Davit, as an OCI layout: Debian with skopeo and certificate authorities, and Davit on its own Node. No daemon, no
// registry; the same packages and the same commit make the same image. What is not committed is not in it.
//
//   node tools/image.mjs --out FOLDER [--suite trixie] [--epoch SECONDS]
//   skopeo copy oci:FOLDER:davit docker://registry.example.com/davit:0.1.0
//
// Root on Debian with the packages mmdebstrap and git, and npm.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { takeCommitted } from './committed-files.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const HOME = 'opt/davit'
/** Nobody of a host, and whom the Job of a bake runs as. */
const USER = 65_532
const PACKAGES = ['ca-certificates', 'libstdc++6', 'skopeo']
/** What Davit runs with; its tests and its playground stay out. */
const FILES = ['package.json', 'package-lock.json', '.npmrc', 'LICENSE', 'bin', 'src']
const LEFT_OUT = /^src\/(playground|tools)$|\.test\.ts$/
const MEDIA = 'application/vnd.oci.image'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    suite: { type: 'string', default: 'trixie' },
    epoch: { type: 'string', default: run('git', ['log', '-1', '--format=%ct'], ROOT).trim() },
  },
})
if (values.out === undefined) throw new Error('--out is missing')
const { suite, epoch } = values
const created = new Date(Number(epoch) * 1000).toISOString()
const architecture = process.arch === 'x64' ? 'amd64' : process.arch
const work = mkdtempSync(join(tmpdir(), 'davit-image-'))
try {
  const layers = [await layer('debian', makeDebian()), await layer('davit', makeDavit())]
  writeLayout(values.out, layers)
} finally {
  rmSync(work, { recursive: true, force: true })
}

/** @returns the path of an archive */
function makeDebian() {
  const path = join(work, 'debian.tar')
  const left = ['doc', 'man', 'info', 'locale', 'lintian', 'bash-completion']
  const options = [
    '--variant=essential',
    '--quiet',
    `--include=${PACKAGES.join(',')}`,
    '--aptopt=APT::Install-Recommends "false"',
    ...left.map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`),
    '--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/* "$1"/etc/machine-id',
    // Nobody becomes somebody else in there.
    '--customize-hook=find "$1"/usr "$1"/opt -xdev -perm /6000 -type f -exec chmod ug-s {} +',
    `--customize-hook=echo 'davit:x:${USER}:${USER}::/nonexistent:/usr/sbin/nologin' >> "$1"/etc/passwd`,
    `--customize-hook=echo 'davit:x:${USER}:' >> "$1"/etc/group`,
  ]
  run('mmdebstrap', [...options, suite, path], work, { SOURCE_DATE_EPOCH: epoch })
  return path
}

/** @returns the path of an archive */
function makeDavit() {
  const home = join(work, 'davit', HOME)
  mkdirSync(home, { recursive: true })
  const changed = takeCommitted(ROOT, FILES, home)
  if (changed.length > 0)
    console.error(
      `The image has what was committed, and not these changes of the tree:\n${changed.join('\n')}`,
    )
  for (const path of readdirSync(home, { recursive: true }))
    if (LEFT_OUT.test(path)) rmSync(join(home, path), { recursive: true, force: true })
  run('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'], home)
  const node = `node_modules/node-linux-${process.arch}`
  for (const name of ['include', 'share', 'README.md', 'CHANGELOG.md'])
    rmSync(join(home, node, name), { recursive: true, force: true })
  rmSync(join(home, 'node_modules', '.package-lock.json'))
  const path = join(work, 'davit.tar')
  const same = [
    '--sort=name',
    `--mtime=@${epoch}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rwX,go+rX,go-w',
  ]
  run('tar', [...same, '--format=gnu', '-cf', path, '-C', join(work, 'davit'), 'opt'], work)
  return path
}

/** Packs an archive. @returns what a manifest says of it */
async function layer(name, path) {
  const diffId = await sha256(path)
  run('gzip', ['-n', '-6', path], work)
  const packed = `${path}.gz`
  return { name, path: packed, diffId, digest: await sha256(packed), size: statSync(packed).size }
}

function writeLayout(out, layers) {
  const blobs = join(out, 'blobs', 'sha256')
  mkdirSync(blobs, { recursive: true })
  for (const { path, digest } of layers) cpSync(path, join(blobs, digest.slice(7)))
  const put = (mediaType, value) => {
    const text = JSON.stringify(value)
    const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
    writeFileSync(join(blobs, digest.slice(7)), text)
    return { mediaType, digest, size: Buffer.byteLength(text) }
  }
  const config = put(`${MEDIA}.config.v1+json`, {
    created,
    architecture,
    os: 'linux',
    config: {
      User: `${USER}:${USER}`,
      Env: [`PATH=/${HOME}/node_modules/.bin:/usr/sbin:/usr/bin:/sbin:/bin`],
      Entrypoint: [`/${HOME}/node_modules/.bin/node`, `/${HOME}/src/main.ts`],
      WorkingDir: '/',
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ name }) => ({ created, created_by: `tools/image.mjs: ${name}` })),
  })
  const manifest = put(`${MEDIA}.manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config,
    layers: layers.map(({ digest, size }) => ({ mediaType: `${MEDIA}.layer.v1.tar+gzip`, digest, size })),
  })
  const { version } = JSON.parse(readFileSync(join(work, 'davit', HOME, 'package.json'), 'utf8'))
  const annotations = {
    'org.opencontainers.image.ref.name': 'davit',
    'org.opencontainers.image.version': version,
  }
  const index = {
    schemaVersion: 2,
    mediaType: `${MEDIA}.index.v1+json`,
    manifests: [{ ...manifest, annotations }],
  }
  writeFileSync(join(out, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  writeFileSync(join(out, 'index.json.new'), JSON.stringify(index))
  renameSync(join(out, 'index.json.new'), join(out, 'index.json'))
  const bytes = layers.reduce((sum, { size }) => sum + size, 0)
  console.log(`${manifest.digest}  ${Math.round(bytes / 2 ** 20)} MiB  ${out}`)
}

function sha256(path) {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha256')
    createReadStream(path)
      .on('data', (bytes) => hash.update(bytes))
      .once('end', () => resolve(`sha256:${hash.digest('hex')}`))
      .once('error', reject)
  })
}

/** @returns its stdout; what it says besides is shown */
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
