/** The languages of docs/guides/verify-deliveries.md: how each program is put together and run, as the page says. */
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensurePythonVenv, NoPythonError } from '../support/python-venv.ts'
import { startReceiverProcess, type Verifier } from './receiver-process.ts'
import { NotHere, prepare, run } from './run-program.ts'
import { installed, snippetOf } from './snippets.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Modules of Go that were downloaded stay here. */
const GO_MODULES = join(ROOT, '.davit', 'verify', 'go')

export type Language = {
  name: string
  /** It answers requests, and remembers what it has worked on. */
  isReceiver: boolean
  /** @param secret that the program knows @throws NotHere where the machine cannot run it */
  start(secret: string): Promise<Verifier>
}

export const LANGUAGES: readonly Language[] = [
  { name: 'TypeScript', isReceiver: true, start: startTypeScript },
  { name: 'Python', isReceiver: true, start: startPython },
  { name: 'Go', isReceiver: true, start: startGo },
  { name: 'sh', isReceiver: false, start: (secret) => startShell('sh', secret) },
  { name: 'bash', isReceiver: false, start: (secret) => startShell('bash', secret) },
]

function startTypeScript(secret: string): Promise<Verifier> {
  return inFolder({ 'receiver.ts': snippetOf('ts'), 'package.json': '{"type":"module"}' }, async (folder) => {
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2024']
    const tsc = join(ROOT, 'node_modules', '.bin', 'tsc')
    const checked = await run(tsc, [...options, '--types', 'node', 'receiver.ts'], { cwd: folder })
    if (checked.code !== 0) throw new Error(`it has wrong types:\n${checked.stdout}${checked.stderr}`)
    return startReceiverProcess({ program: process.execPath, args: ['receiver.ts'], cwd: folder }, secret)
  })
}

function startPython(secret: string): Promise<Verifier> {
  const requirement = installed(/pip install (\S+==[\d.]+)`/)
  return inFolder({ 'receiver.py': snippetOf('python'), requirements: requirement }, async (folder) => {
    const program = await pythonWith(join(folder, 'requirements'))
    return startReceiverProcess({ program, args: ['receiver.py'], cwd: folder }, secret)
  })
}

async function pythonWith(requirements: string): Promise<string> {
  try {
    return join(await ensurePythonVenv({ name: 'verify', requirements, say: () => undefined }), 'python')
  } catch (error) {
    throw error instanceof NoPythonError ? new NotHere(error.message) : error
  }
}

function startGo(secret: string): Promise<Verifier> {
  const module = installed(/go get (\S+@v[\d.]+)`/)
  // Its own modules, so that what was there before proves nothing; the compiled standard library is everybody's.
  const env = { GOMODCACHE: GO_MODULES, GOFLAGS: '-modcacherw', GOTOOLCHAIN: 'local', GOWORK: 'off' }
  return inFolder({ 'main.go': snippetOf('go') }, async (folder) => {
    await prepare('go', ['mod', 'init', 'receiver'], { cwd: folder, env })
    await prepare('go', ['get', module], { cwd: folder, env })
    const built = await run('go', ['build', '-o', 'receiver', '.'], { cwd: folder, env })
    if (built.code !== 0) throw new Error(`it does not compile:\n${built.stdout}${built.stderr}`)
    return startReceiverProcess({ program: join(folder, 'receiver'), args: [], cwd: folder }, secret)
  })
}

/** A script that looks at one delivery at a time. @param shell a shell of the machine */
function startShell(shell: string, secret: string): Promise<Verifier> {
  return inFolder({ 'verify.sh': snippetOf('sh') }, async (folder) => {
    const taken: string[] = []
    return {
      async takes({ id, timestamp, signatures, body }) {
        const env = { WEBHOOK_SECRET: secret }
        const args = ['verify.sh', id, timestamp, signatures]
        const { code, stdout, stderr } = await run(shell, args, { cwd: folder, env, input: body })
        if (code === 1 && /^rejected: .*\n$/.test(stderr) && stdout === '') return false
        if (code !== 0 || stdout !== `verified: ${id}\n`) throw new Error(`exit code ${code}: ${stderr}`)
        taken.push(id)
        return true
      },
      worked: () => taken,
      stop: async () => undefined,
    }
  })
}

/** Starts something among files, in a folder that ends with it. */
async function inFolder(
  files: Readonly<Record<string, string>>,
  start: (folder: string) => Promise<Verifier>,
): Promise<Verifier> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-verify-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content)
    const started = await start(folder)
    const stop = async () => {
      await started.stop()
      await remove()
    }
    return { ...started, stop }
  } catch (error) {
    await remove()
    throw error
  }
}
