/** The part of a kubelet that asks credential providers, built from its own source and kept in the cache. */
import { execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { access, mkdir, readFile, rename } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const SOURCES = ['main.go', 'go.mod', 'go.sum']
/** The first time; what the control plane was built of is not built again. */
export const BUILD_LIMIT_MS = 20 * 60_000
/** As for the control plane (src/playground/control-plane-build.ts), so that both share what Go has compiled. */
const GO_ENV = { CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' }
const FLAGS = ['-mod=readonly', '-buildvcs=false', '-trimpath']

/** @returns the path of the program */
export async function buildKubeletPull(): Promise<string> {
  const hash = createHash('sha256')
  for (const name of SOURCES) hash.update(await readFile(join(HERE, name)))
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const folder = join(caches, 'davit', 'kubelet-pull')
  const program = join(folder, `${hash.digest('hex').slice(0, 16)}-${process.platform}-${process.arch}`)
  if (await isThere(program)) return program
  await mkdir(folder, { recursive: true })
  const making = `${program}.${randomBytes(4).toString('hex')}`
  const options = { cwd: HERE, env: { ...process.env, ...GO_ENV }, timeout: BUILD_LIMIT_MS }
  await promisify(execFile)('go', ['build', ...FLAGS, '-o', making, '.'], options).catch(explain)
  await rename(making, program)
  return program
}

/** A test that cannot run fails, and says what it lacks. */
function explain(error: Error): never {
  throw new Error(
    `the part of a kubelet could not be built; it takes Go 1.26 or newer (https://go.dev/dl) and a Go module proxy: ${error.message}`,
  )
}

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

/** A pod that is about to run, and the image that it needs. */
export type PodPull = {
  namespace: string
  pod: string
  uid: string
  serviceAccount: string
  annotations?: Record<string, string>
  /** What the API server gives for the service account. */
  token: string
  image: string
}

export type PullAnswer = {
  credentials: { username: string; password: string }[]
  /** Audiences for which a token was asked. */
  audiences: string[]
}

/** One kubelet, with what it keeps. */
export class KubeletPull {
  readonly #child
  readonly #answers
  #log = ''

  /** @param folder of the providers */
  constructor(program: string, config: string, folder: string, environment: Record<string, string>) {
    this.#child = spawn(program, [config, folder], { env: environment, stdio: 'pipe' })
    this.#child.stderr.on('data', (data: Buffer) => {
      this.#log += data.toString()
    })
    this.#child.stdin.on('error', () => {})
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  /** What it has logged. */
  get log(): string {
    return this.#log
  }

  /** Throws what it says where it does not start. */
  async ask(pull: PodPull): Promise<PullAnswer> {
    this.#child.stdin.write(`${JSON.stringify(pull)}\n`)
    const { value, done } = await this.#answers.next()
    if (done) throw new Error(this.#log)
    return JSON.parse(value) as PullAnswer
  }

  stop(): void {
    this.#child.stdin.end()
    this.#child.kill()
  }
}
