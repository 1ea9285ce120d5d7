/** What must be in the image, and what must not. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Image } from './image.ts'

const run = promisify(execFile)

const LABELS = ['title', 'description', 'licenses', 'version', 'revision', 'created']

/** @returns what is wrong, in words */
export async function lookInto({ root, config }: Image): Promise<string[]> {
  const problems: string[] = []
  const { User, Entrypoint, Labels = {} } = config.config
  if (User !== '65532:65532') problems.push(`it runs as ${User}`)
  if (Entrypoint.some((part) => /sh$/.test(part))) problems.push('it starts with a shell')
  for (const name of LABELS) {
    const label = Labels[`org.opencontainers.image.${name}`]
    if (!label || label === 'unknown') problems.push(`it has no label ${name}`)
  }
  const unwanted = [
    '-perm',
    '/6000',
    '-type',
    'f',
    '-o',
    '-path',
    '*/opt/davit/src/*.test.ts',
    '-o',
    '-path',
    '*/src/playground/*',
  ]
  problems.push(...(await find(root, unwanted)).map((path) => `${path} is in it`))
  const writable = [
    '-path',
    '*/opt/davit/*',
    '(',
    '-perm',
    '/022',
    '-o',
    '-not',
    '-user',
    '0',
    ')',
    '-not',
    '-type',
    'l',
  ]
  problems.push(...(await find(root, writable)).slice(0, 5).map((path) => `${path} is not root's alone`))
  for (const path of ['etc/ssl/certs/ca-certificates.crt', 'opt/davit/LICENSE'])
    if ((await readFile(join(root, path), 'utf8').catch(() => '')) === '') problems.push(`${path} is missing`)
  problems.push(...(await lookAtSbom(root)))
  const { stdout } = await run('chroot', ['--userspec=65532:65532', root, 'skopeo', '--version'])
  console.log(stdout.trim())
  return problems
}

async function find(root: string, what: readonly string[]): Promise<string[]> {
  const { stdout } = await run('find', [root, '-xdev', '(', ...what, ')'], { maxBuffer: 2 ** 26 })
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((path) => path.slice(root.length))
}

/** It names what runs, and nothing of what only tests need. */
async function lookAtSbom(root: string): Promise<string[]> {
  const text = await readFile(join(root, 'opt/davit/sbom.cdx.json'), 'utf8')
  const sbom = JSON.parse(text) as { bomFormat: string; components: { name: string }[] }
  const names = new Set(sbom.components.map(({ name }) => name))
  const { dependencies, devDependencies } = JSON.parse(
    await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as Record<'dependencies' | 'devDependencies', Record<string, string>>
  return [
    ...(sbom.bomFormat === 'CycloneDX' ? [] : ['the SBOM is no CycloneDX']),
    ...Object.keys(dependencies)
      .filter((name) => !names.has(name))
      .map((name) => `the SBOM lacks ${name}`),
    ...Object.keys(devDependencies)
      .filter((name) => ['vitest', 'knip', 'typescript'].includes(name) && names.has(name))
      .map((name) => `${name} is in the SBOM`),
  ]
}
