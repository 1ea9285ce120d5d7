import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { type FileHandle, mkdir, mkdtemp, open, rm, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { RegistryLogin } from '../registry/outcome.ts'

/** Brings an image from its registry into a folder, with a container tool that people know. */

export type CopyOrder = {
  /** As `ghcr.io/acme/api@sha256:...`; with a tag where the digest is not known. */
  image: string
  /** The host that the login is for. */
  registry: string
  /** Absent: nobody logs in, whatever this machine knows. */
  login?: RegistryLogin
  /** As `linux/amd64` or `linux/arm64/v8`. Absent: that of this machine. */
  platform?: string
  /** A folder of its own for what the tool writes beside blobs: an OCI layout without them. */
  folder: string
  /** Where blobs go, by algorithm and digest; what is there already is not brought again. */
  blobs: string
  /** On the same disk, for what the tool writes besides. */
  temporary: string
}

export type CopyOutcome =
  | { ok: true }
  /** `exit` is the exit code, or the name of the signal that ended it. */
  | { ok: false; exit: number | string; stderr: string }

type CopyObserver = {
  /** Each line that the tool writes, whole. @returns the line as it may be shown */
  line(text: string, stream: 'stdout' | 'stderr'): string
  signal: AbortSignal
}

export interface ImageCopier {
  /**
   * Ends with the tool: nothing of it runs any more, and nothing of the login is left. What it has written of the image stays.
   * @throws CopyError when the tool cannot be run; the reason of the signal when it aborts
   */
  copy(order: CopyOrder, watch: CopyObserver): Promise<CopyOutcome>
}

export class CopyError extends Error {
  override readonly name = 'CopyError'
}

/** Whole lines out of pieces of text. A line that does not end is cut, so that memory does not grow with it. */
export class LineSplitter {
  static readonly longest = 64 * 1024
  readonly #take: (line: string) => void
  #rest = ''

  constructor(take: (line: string) => void) {
    this.#take = take
  }

  add(text: string): void {
    const [first = '', ...more] = text.split(/\r?\n|\r/)
    this.#rest += first
    for (const line of more) {
      this.#out()
      this.#rest = line
    }
    while (this.#rest.length > LineSplitter.longest) {
      this.#take(this.#rest.slice(0, LineSplitter.longest))
      this.#rest = this.#rest.slice(LineSplitter.longest)
    }
  }

  end(): void {
    this.#out()
  }

  #out(): void {
    if (this.#rest !== '') this.#take(this.#rest)
    this.#rest = ''
  }
}

/** What the tool opens: its own descriptor 3. */
const AUTH_FILE_PATH = '/proc/self/fd/3'

/**
 * A file with one login and no name: it loses its name before the login is written into it, and ends with the last process that has
 * it open. So there is no moment at which a killed bake leaves one.
 * @param folder in memory @param login absent: a file that logs nobody in
 */
export async function openAuthFile(
  folder: string,
  registry: string,
  login: RegistryLogin | undefined,
): Promise<FileHandle> {
  const path = join(folder, 'auth')
  const file = await open(path, 'wx+', 0o600)
  try {
    await unlink(path)
    await file.write(JSON.stringify({ auths: login ? { [registry]: { auth: authOf(login) } } : {} }), 0)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

function authOf({ username, password }: RegistryLogin): string {
  return Buffer.from(`${username}:${password.reveal()}`, 'utf8').toString('base64')
}

/** What the name of its folder begins with. */
export const TOOL_HOME_PREFIX = 'tool-'

/** What the tool finds instead of the settings and logins of the machine. */
type ToolHome = {
  path: string
  /** Folder with authorities; absent where there are none of our own. */
  certificates: string | undefined
  environment: Record<string, string>
  remove(): Promise<void>
}

/** @param memory a folder in memory, where it goes */
async function makeToolHome(options: { memory: string; extraCa?: string | undefined }): Promise<ToolHome> {
  const path = await mkdtemp(join(options.memory, TOOL_HOME_PREFIX))
  const remove = () => rm(path, { recursive: true, force: true })
  try {
    const settings = join(path, '.config', 'containers')
    const registries = join(settings, 'registries.conf')
    await mkdir(join(settings, 'registries.conf.d'), { recursive: true })
    // No mirror and no registry without TLS: what was asked before is what is pulled from.
    await writeFile(registries, '')
    const certificates = options.extraCa === undefined ? undefined : join(path, 'certificates')
    if (certificates !== undefined) {
      await mkdir(certificates)
      await writeFile(join(certificates, 'extra.crt'), options.extraCa ?? '')
    }
    const environment = {
      HOME: path,
      XDG_RUNTIME_DIR: path,
      XDG_CONFIG_HOME: join(path, '.config'),
      DOCKER_CONFIG: path,
      CONTAINERS_REGISTRIES_CONF: registries,
      LC_ALL: 'C.UTF-8',
    }
    return { path, certificates, environment, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

export type SkopeoOptions = {
  /** Absent: the one on the PATH. */
  program?: string
  /** A folder in memory. */
  memory: string
  /** PEM of authorities that are trusted besides those of the machine. */
  extraCa?: string | undefined
  /** Variables of this process that the tool may have; nothing else goes to it. */
  environment: Readonly<Record<string, string>>
  /** Opens the way into the network of one pull, which is for this registry and no other. */
  openWay(registry: string): Promise<Way>
}

/** By which a tool goes into the network. */
type Way = {
  /** Variables that lead it there. */
  environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** Between asking it to end and ending it. */
const KILL_GRACE_MS = 3000
/** Of its words; the last ones say why it failed. */
const MAX_KEPT = 64 * 1024

/** `skopeo copy`, of one platform, into an OCI layout whose blobs are shared. */
export function createSkopeo(options: SkopeoOptions): ImageCopier {
  return {
    async copy(order, watch) {
      watch.signal.throwIfAborted()
      const home = await makeToolHome(options)
      try {
        const way = await options.openWay(order.registry)
        try {
          const auth = await openAuthFile(home.path, order.registry, order.login)
          try {
            return await run(options, { order, watch, auth, home, way })
          } finally {
            await auth.close()
          }
        } finally {
          await way.close()
        }
      } finally {
        await home.remove()
      }
    },
  }
}

type Run = { order: CopyOrder; watch: CopyObserver; auth: FileHandle; home: ToolHome; way: Way }

async function run(options: SkopeoOptions, { order, watch, auth, home, way }: Run): Promise<CopyOutcome> {
  const child = spawn(options.program ?? 'skopeo', argumentsOf(order, home), {
    cwd: '/',
    env: { ...options.environment, ...way.environment, ...home.environment, TMPDIR: order.temporary },
    // The login goes as an open file: neither arguments nor environment of a process are a secret.
    stdio: ['ignore', 'pipe', 'pipe', auth.fd],
  }) as unknown as Child
  const kept = new BoundedOutput()
  const ended = waitForExit(child)
  const stop = stopOnAbort(child, watch.signal)
  try {
    const [end] = await Promise.all([
      ended,
      read(child.stdout, (line) => void watch.line(line, 'stdout')),
      read(child.stderr, (line) => kept.add(watch.line(line, 'stderr'))),
    ])
    watch.signal.throwIfAborted()
    return end === 0 ? { ok: true } : { ok: false, exit: end, stderr: kept.text() }
  } finally {
    stop()
  }
}

function argumentsOf(order: CopyOrder, home: ToolHome): string[] {
  const [os, architecture, variant] = order.platform?.split('/') ?? []
  return [
    '--insecure-policy',
    '--tmpdir',
    order.temporary,
    ...(os ? ['--override-os', os] : []),
    ...(architecture ? ['--override-arch', architecture] : []),
    ...(variant ? ['--override-variant', variant] : []),
    'copy',
    '--authfile',
    AUTH_FILE_PATH,
    ...(home.certificates === undefined ? [] : ['--src-cert-dir', home.certificates]),
    '--dest-shared-blob-dir',
    order.blobs,
    `docker://${order.image}`,
    `oci:${order.folder}:image`,
  ]
}

/** The exit code, or the name of the signal. @throws CopyError when there is no such program, or it cannot be run */
function waitForExit(child: Child): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new CopyError(`the tool cannot be run: ${error.message}`)))
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'))
  })
}

function stopOnAbort(child: Child, signal: AbortSignal): () => void {
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    child.kill('SIGTERM')
    timer = setTimeout(() => child.kill('SIGKILL'), KILL_GRACE_MS)
  }
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  return () => {
    signal.removeEventListener('abort', end)
    clearTimeout(timer)
  }
}

async function read(stream: Readable, take: (line: string) => void): Promise<void> {
  const lines = new LineSplitter(take)
  stream.setEncoding('utf8')
  for await (const text of stream) lines.add(String(text))
  lines.end()
}

/** The last of what was written, so much of it as is ever shown. */
class BoundedOutput {
  readonly #lines: string[] = []
  #size = 0

  add(line: string): void {
    this.#lines.push(line)
    this.#size += line.length + 1
    while (this.#size > MAX_KEPT && this.#lines.length > 1)
      this.#size -= (this.#lines.shift()?.length ?? 0) + 1
  }

  text(): string {
    return this.#lines.join('\n')
  }
}
