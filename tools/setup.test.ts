import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const TOOLS = fileURLToPath(new URL('.', import.meta.url))

let clone: string
let bin: string

/** A clone with a lock file and these tools, and a PATH that contains only the programs of the test. */
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), 'davit setup '))
  bin = join(clone, 'host-bin')
  mkdirSync(bin)
  const filter = (path: string) => !/control-plane|node_modules/.test(path)
  cpSync(TOOLS, join(clone, 'tools'), { recursive: true, filter })
  writeLock({
    'node_modules/a': { version: '1.0.0' },
    'node_modules/b': { version: '1.0.0', optional: true },
  })
})

afterEach(() => rmSync(clone, { recursive: true, force: true }))

function writeLock(packages: object): void {
  writeFileSync(join(clone, 'package-lock.json'), JSON.stringify({ packages }))
}

function program(path: string, script: string): void {
  mkdirSync(dirname(path), { recursive: true })
  rmSync(path, { force: true })
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
}

/** An npm that counts its calls and installs a Node of this version, or none. */
function fakeNpm(version: string | undefined): void {
  const bins = 'node_modules/.bin'
  const node = `/bin/mkdir -p ${bins}; printf '#!/bin/sh\\necho ${version}\\n' > ${bins}/node; /bin/chmod +x ${bins}/node`
  program(join(bin, 'npm'), `echo "$*" >> npm-calls; /bin/rm -rf node_modules; ${version ? node : ':'}`)
}

function npmCalls(): number {
  const path = join(clone, 'npm-calls')
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').length : 0
}

type Options = { args?: string[]; asNode?: string }

/** Runs the set-up on a host Node of any version. */
function setUp({ args = [], asNode }: Options = {}): { code: number | null; output: string } {
  const pretend =
    asNode &&
    `--import=data:text/javascript,Object.defineProperty(process.versions,"node",{value:"${asNode}"})`
  const result = spawnSync(
    process.execPath,
    [...(pretend ? [pretend] : []), join(clone, 'tools', 'setup.mjs'), ...args],
    {
      env: { PATH: bin },
      encoding: 'utf8',
    },
  )
  return { code: result.status, output: `${result.stdout}${result.stderr}` }
}

/**
 * `npm start` in the clone, where the installed Node prints its version instead of running the playground. @param answers typed on
 * a terminal; absent: there is no terminal
 */
function start(args: string[], answers?: string): { code: number | null; output: string } {
  for (const file of ['options.mjs', 'bakes/programs.mjs', 'control-plane/find-binaries.mjs'])
    cpSync(join(TOOLS, '..', 'playground', file), join(clone, 'playground', file))
  rmSync(join(bin, 'node'), { force: true })
  symlinkSync(process.execPath, join(bin, 'node'))
  const command = ['/bin/sh', 'tools/start.sh', ...args]
  const [program = '', ...rest] =
    answers === undefined ? command : ['/usr/bin/script', '-qec', command.join(' '), '/dev/null']
  const result = spawnSync(program, rest, {
    cwd: clone,
    env: { PATH: bin, SHELL: '/bin/sh', XDG_CACHE_HOME: join(clone, 'cache') },
    input: answers ?? '',
    encoding: 'utf8',
  })
  return { code: result.status, output: `${result.stdout}${result.stderr}`.replaceAll('\r', '') }
}

function controlPlaneInCache(): void {
  const folder = `v1.36.0-${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
  for (const name of ['etcd', 'kube-apiserver', 'kubectl'])
    program(join(clone, 'cache', 'davit', 'control-plane', folder, name), '')
}

const QUIET = { code: 0, output: '' }

describe('set-up', () => {
  it('installs once, and says nothing when nothing is to do', () => {
    fakeNpm('v24.1.0')
    expect(setUp()).toEqual({ code: 0, output: 'davit: installing the packages of package-lock.json\n' })
    expect(setUp()).toEqual(QUIET)
    expect(readFileSync(join(clone, 'npm-calls'), 'utf8')).toMatch(/^ci /)
    expect(npmCalls()).toBe(1)
  })

  it('installs again when the lock file has changed, or the Node is gone', () => {
    fakeNpm('v24.1.0')
    setUp()
    writeLock({ 'node_modules/a': { version: '2.0.0' } })
    setUp()
    expect(npmCalls()).toBe(2)
    rmSync(join(clone, 'node_modules', '.bin', 'node'))
    expect(setUp().code).toBe(0)
    expect(npmCalls()).toBe(3)
  })

  it('leaves alone what an npm install by hand has made of the same lock file', () => {
    program(join(clone, 'node_modules', '.bin', 'node'), 'echo v24.1.0')
    const installed = { 'node_modules/a': { version: '1.0.0' } }
    writeFileSync(join(clone, 'node_modules', '.package-lock.json'), JSON.stringify({ packages: installed }))
    fakeNpm('v24.1.0')
    expect(setUp()).toEqual(QUIET)
    expect(npmCalls()).toBe(0)
  })

  it('installs over what somebody made of another lock file', () => {
    program(join(clone, 'node_modules', '.bin', 'node'), 'echo v24.1.0')
    const installed = { 'node_modules/a': { version: '0.9.0' } }
    writeFileSync(join(clone, 'node_modules', '.package-lock.json'), JSON.stringify({ packages: installed }))
    fakeNpm('v24.1.0')
    setUp()
    expect(npmCalls()).toBe(1)
  })

  it('takes the host’s Node where the packages bring none for the platform', () => {
    fakeNpm(undefined)
    expect(setUp().code).toBe(0)
    const version = spawnSync(join(clone, 'node_modules', '.bin', 'node'), ['--version'], {
      encoding: 'utf8',
    })
    expect(version.stdout.trim()).toBe(process.version)
    expect(setUp()).toEqual(QUIET)
  })

  it('passes on what npm complains of, and tries again the next time', () => {
    program(join(bin, 'npm'), 'echo "npm error ENOTCACHED" >&2; exit 1')
    const { code, output } = setUp()
    expect(code).toBe(1)
    expect(output).toContain('npm ci failed (exit code 1):\nnpm error ENOTCACHED')
    expect(output).not.toContain('at ')
    fakeNpm('v24.1.0')
    expect(setUp().code).toBe(0)
  })

  it('says so where there is no npm', () => {
    expect(setUp()).toMatchObject({ code: 1, output: expect.stringContaining('npm is not on the PATH') })
  })

  it('refuses a host whose Node is too old even for this', () => {
    const { code, output } = setUp({ asNode: '18.19.0' })
    expect(code).toBe(1)
    expect(output).toContain('needs Node.js 20 or later')
  })

  it('lets no package run a script when it is installed', () => {
    for (const folder of ['..', 'openapi-types'])
      expect(readFileSync(join(TOOLS, folder, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m)
  })

  it('installs the tools that write generated files where they are wanted, once', () => {
    fakeNpm('v24.1.0')
    const calls = join(clone, 'tools', 'openapi-types', 'npm-calls')
    expect(setUp().code).toBe(0)
    expect(existsSync(calls)).toBe(false)
    expect(setUp({ args: ['--for-generate'] })).toEqual({
      code: 0,
      output: 'davit: installing the packages of tools/openapi-types/package-lock.json\n',
    })
    expect(setUp({ args: ['--for-generate'] })).toEqual(QUIET)
    expect(readFileSync(calls, 'utf8').match(/^ci /gm)).toHaveLength(1)
    expect(npmCalls()).toBe(1)
  })

  it('names the programs that tests call and the host has not', () => {
    fakeNpm('v24.1.0')
    const { code, output } = setUp({ args: ['--for-tests'] })
    expect(code).toBe(1)
    expect(output).toContain(
      'apt-get install openssl curl jq docker-registry apache2-utils skopeo prometheus podman golang-go chromium\n',
    )
    const some = ['openssl', 'curl', 'jq', 'docker-registry', 'htpasswd', 'skopeo', 'podman', 'go']
    for (const name of [...some, 'promtool', 'prometheus']) program(join(bin, name), '')
    expect(setUp({ args: ['--for-tests'] }).output).toContain('apt-get install chromium\n')
    // Any of its names on the host is accepted.
    program(join(bin, 'google-chrome'), '')
    expect(setUp({ args: ['--for-tests'] })).toEqual(QUIET)
  })
})

describe('npm start', () => {
  it('without a terminal says what it installs, and starts', () => {
    fakeNpm('v24.1.0')
    const { code, output } = start([])
    expect(code).toBe(0)
    expect(output).toMatch(/^ {2}npm packages .*300 MB/m)
    expect(output).toMatch(/^ {2}control plane .*70 MB/m)
    expect(output).toContain(join(clone, 'cache'))
    expect(output).toContain('Continuing without a question: there is no terminal.')
    expect(output).toContain('v24.1.0\n')
    expect(npmCalls()).toBe(1)
  })

  it('starts at once when nothing is missing', () => {
    fakeNpm('v24.1.0')
    setUp()
    controlPlaneInCache()
    expect(start(['--no-bakes'])).toEqual({ code: 0, output: 'v24.1.0\n' })
  })

  it('answers --help and wrong options without installing anything', () => {
    fakeNpm('v24.1.0')
    expect(start(['--help'])).toMatchObject({ code: 0, output: expect.stringMatching(/^usage: npm start/) })
    expect(start(['--one'])).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^Unknown option '--one'/),
    })
    expect(npmCalls()).toBe(0)
  })

  describe.runIf(process.platform === 'linux')('on a terminal', () => {
    it('installs and starts after a yes', () => {
      fakeNpm('v24.1.0')
      const { code, output } = start([], 'what?\n\n')
      expect(code).toBe(0)
      expect(output.match(/Continue\? \[Y\/n\]/g)).toHaveLength(2)
      expect(output).toContain('v24.1.0\n')
      expect(npmCalls()).toBe(1)
    })

    it('installs nothing after a no, and says what else to do', () => {
      fakeNpm('v24.1.0')
      const { code, output } = start([], 'n\n')
      expect(code).toBe(1)
      expect(output).toContain('Nothing was installed, and the playground did not start.')
      expect(output).not.toContain('v24.1.0')
      expect(npmCalls()).toBe(0)
    })

    it('does not ask with --yes', () => {
      fakeNpm('v24.1.0')
      const { code, output } = start(['--yes'], '')
      expect(code).toBe(0)
      expect(output).toContain('Continuing without a question: --yes is set.')
      expect(npmCalls()).toBe(1)
    })
  })
})
