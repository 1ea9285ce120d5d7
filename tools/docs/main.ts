/**
 * `npm run docs [-- --serve] [--port 4173] [--base /davit/]`: builds the documentation site in `site/dist`, in a folder of its
 * version. Folders of other versions that are there stay, so copy those of earlier releases there to publish all of them.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { sidebarOf } from './sidebar.ts'
import { type SiteFiles, sitePathOf, stagePage } from './stage.ts'
import { docsVersionOf, startPage, versionsAmong } from './versions.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SITE = join(ROOT, 'site')
const STAGE = join(SITE, '.stage')
const DIST = join(SITE, 'dist')
const PAGES = [
  'docs/**/*.md',
  'test/reports/*.md',
  'src/**/README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'contract/README.md',
]
const USAGE = 'Usage: npm run docs [-- [--serve] [--port PORT] [--base /PATH/]]'

const { serve, port, base } = options()
const version = docsVersionOf(packageVersion())
process.stdout.write(`Building the documentation of Davit ${version} (about a minute).\n`)
const pages = stage()
await run('vitepress', ['build', '.'], {
  DAVIT_DOCS_VERSION: version,
  DAVIT_DOCS_ROOT: base,
})
const versions = versionsAmong(readdirSync(DIST))
writeFileSync(join(DIST, 'versions.json'), `${JSON.stringify(versions)}\n`)
writeFileSync(join(DIST, 'index.html'), startPage(versions[0] ?? version))
process.stdout.write(
  `Built ${pages} pages in site/dist/${version} (versions there: ${versions.join(', ')}).\n`,
)
if (serve) {
  process.stdout.write(`Serving http://127.0.0.1:${port}${base} until Ctrl-C.\n`)
  await run('vite', [
    'preview',
    '--outDir',
    'dist',
    '--base',
    base,
    '--host',
    '127.0.0.1',
    '--port',
    port,
    '--strictPort',
  ])
} else {
  process.stdout.write('To look at it: npm run docs -- --serve\n')
}

function options(): { serve: boolean; port: string; base: string } {
  try {
    const { values } = parseArgs({
      options: {
        serve: { type: 'boolean', default: false },
        port: { type: 'string', default: '4173' },
        base: { type: 'string', default: '/' },
      },
    })
    if (!/^\/(?:[\w.-]+\/)*$/.test(values.base))
      throw new Error('--base must begin and end with a slash, such as /davit/')
    if (!/^[1-9]\d{0,4}$/.test(values.port)) throw new Error('--port must be a number from 1 to 65535')
    return values
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
    return process.exit(2)
  }
}

function packageVersion(): string {
  return (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version
}

/** Writes the source of the site. Returns the number of its pages. */
function stage(): number {
  rmSync(STAGE, { recursive: true, force: true })
  const paths = globSync(PAGES, { cwd: ROOT })
  const files: SiteFiles = {
    pages: new Map(paths.map((path) => [path, sitePathOf(path) ?? path])),
    isFile: (path) => statSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() ?? false,
  }
  for (const [path, page] of files.pages) {
    const { text, attachments } = stagePage(path, readFileSync(join(ROOT, path), 'utf8'), files)
    write(page, text)
    for (const attachment of attachments) copy(attachment, `public/files/${attachment}`)
  }
  for (const picture of globSync('docs/**/*.{svg,png}', { cwd: ROOT }))
    copy(picture, picture.slice('docs/'.length))
  copy('docs/reference/openapi.json', 'openapi.json')
  cpSync(join(SITE, 'pages'), STAGE, { recursive: true })
  const list = (path: string) =>
    path.endsWith('README.md') ? readFileSync(join(ROOT, path), 'utf8') : undefined
  write('sidebar.json', JSON.stringify(sidebarOf(readFileSync(join(ROOT, 'docs/README.md'), 'utf8'), list)))
  return globSync('**/*.md', { cwd: STAGE }).length
}

function write(path: string, text: string): void {
  const target = join(STAGE, path)
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, text)
}

function copy(from: string, to: string): void {
  const target = join(STAGE, to)
  mkdirSync(dirname(target), { recursive: true })
  cpSync(join(ROOT, from), target)
}

async function run(program: string, args: string[], env: Record<string, string> = {}): Promise<void> {
  const bin = join(SITE, 'node_modules', program, 'bin', `${program}.js`)
  const child = spawn(process.execPath, [bin, ...args], {
    cwd: SITE,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  const [code] = await once(child, 'close')
  if (code !== 0) process.exit(Number(code ?? 1))
}
