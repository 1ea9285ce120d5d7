/**
 * Pulls images with `skopeo copy` into an OCI layout with shared blobs. The tool gets no settings or logins of the machine, one login as
 * an open file without a name, and a proxy that lets it reach the one registry.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { type FileHandle, mkdir, mkdtemp, open, rm, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { EgressProxy } from '../registry/egress.ts'
import { basicValue, type RegistryLogin } from '../registry/outcome.ts'

export type CopyOrder = {
  /** Such as `ghcr.io/acme/api@sha256:...`, or with a tag if the digest is unknown. */
  image: string
  registry: string
  /** Absent: pulls anonymously. */
  login?: RegistryLogin | undefined
  /** Such as `linux/amd64` or `linux/arm64/v8`. Absent: that of this machine. */
  platform?: string | undefined
  /** An empty folder for the OCI layout without its blobs. */
  folder: string
  /** Folder of blobs, by algorithm and digest. Blobs that exist are not downloaded again. */
  blobs: string
  /** Folder for temporary files, on the same disk. */
  temporary: string
}

export type CopyOutcome =
  | { ok: true }
  /** `exit` is the exit code or the name of the signal. */
  | { ok: false; exit: number | string; stderr: string }

type CopyObserver = {
  /** Called for every line of output. @returns the line without secrets */
  line(text: string, stream: 'stdout' | 'stderr'): string
  signal: AbortSignal
}

export interface ImageCopier {
  /**
   * When it returns, the tool has ended and the login is gone. What it wrote of the image stays.
   * @throws CopyError if the tool cannot be run; the reason of the signal if that aborts
   */
  copy(order: CopyOrder, observer: CopyObserver): Promise<CopyOutcome>
}

export class CopyError extends Error {
  override readonly name = 'CopyError'
}

/** Joins chunks of text into lines. Cuts lines that are too long, to bound the memory. */
export class LineSplitter {
  static readonly longest = 64 * 1024
  readonly #onLine: (line: string) => void
  #rest = ''

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  add(text: string): void {
    const [first = '', ...more] = text.split(/\r?\n|\r/)
    this.#rest += first
    for (const line of more) {
      this.end()
      this.#rest = line
    }
    while (this.#rest.length > LineSplitter.longest) {
      this.#onLine(this.#rest.slice(0, LineSplitter.longest))
      this.#rest = this.#rest.slice(LineSplitter.longest)
    }
  }

  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest)
    this.#rest = ''
  }
}

const AUTH_FILE_PATH = '/proc/self/fd/3'

/**
 * Opens an auth file that is unlinked before the login is written, so that even a killed bake leaves no login behind.
 * @param folder in memory @param login absent: an empty auth file
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
    const auth = login && basicValue(login)
    await file.write(JSON.stringify({ auths: auth === undefined ? {} : { [registry]: { auth } } }), 0)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

export const TOOL_HOME_PREFIX = 'tool-'

/** A home folder for the tool, in place of the machine's settings and logins. */
type ToolHome = {
  path: string
  certificates: string | undefined
  environment: Record<string, string>
  remove(): Promise<void>
}

async function makeToolHome({ memory, extraCa }: SkopeoOptions): Promise<ToolHome> {
  const path = await mkdtemp(join(memory, TOOL_HOME_PREFIX))
  const remove = () => rm(path, { recursive: true, force: true })
  try {
    const settings = join(path, '.config', 'containers')
    const registries = join(settings, 'registries.conf')
    await mkdir(join(settings, 'registries.conf.d'), { recursive: true })
    // Empty: no mirrors and no registries without TLS, so the tool pulls from the registry that was probed.
    await writeFile(registries, '')
    const certificates = extraCa === undefined ? undefined : join(path, 'certificates')
    if (certificates !== undefined) {
      await mkdir(certificates)
      await writeFile(join(certificates, 'extra.crt'), extraCa ?? '')
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

type SkopeoOptions = {
  program?: string
  memory: string
  /** Additional certificate authorities in PEM form. */
  extraCa?: string | undefined
  /** The only variables of this process that the tool gets. */
  environment: Readonly<Record<string, string>>
  /** Opens an egress proxy to this registry, for one pull. */
  openProxy(registry: string): Promise<EgressProxy>
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** Between SIGTERM and SIGKILL. */
const KILL_GRACE_MS = 3000
/** The end of the output says why the tool failed. */
const MAX_KEPT_OUTPUT = 64 * 1024

export function createSkopeo(options: SkopeoOptions): ImageCopier {
  return {
    async copy(order, observer) {
      observer.signal.throwIfAborted()
      const home = await makeToolHome(options)
      try {
        const proxy = await options.openProxy(order.registry)
        try {
          const auth = await openAuthFile(home.path, order.registry, order.login)
          try {
            return await run(options, { order, observer, auth, home, proxy })
          } finally {
            await auth.close()
          }
        } finally {
          await proxy.close()
        }
      } finally {
        await home.remove()
      }
    },
  }
}

type Run = { order: CopyOrder; observer: CopyObserver; auth: FileHandle; home: ToolHome; proxy: EgressProxy }

async function run(
  options: SkopeoOptions,
  { order, observer, auth, home, proxy }: Run,
): Promise<CopyOutcome> {
  const child = spawn(options.program ?? 'skopeo', skopeoArguments(order, home), {
    cwd: '/',
    env: { ...options.environment, ...proxy.environment, ...home.environment, TMPDIR: order.temporary },
    // The login is an open file, since arguments and environment of a process are not secret.
    stdio: ['ignore', 'pipe', 'pipe', auth.fd],
  }) as unknown as Child
  const kept = new BoundedOutput()
  const ended = waitForExit(child)
  const stop = stopOnAbort(child, observer.signal)
  try {
    const [exit] = await Promise.all([
      ended,
      read(child.stdout, (line) => void observer.line(line, 'stdout')),
      read(child.stderr, (line) => kept.add(observer.line(line, 'stderr'))),
    ])
    observer.signal.throwIfAborted()
    return exit === 0 ? { ok: true } : { ok: false, exit, stderr: kept.text() }
  } finally {
    stop()
  }
}

function skopeoArguments(order: CopyOrder, home: ToolHome): string[] {
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

/** @returns the exit code or the name of the signal @throws CopyError if the program cannot be run */
function waitForExit(child: Child): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new CopyError(`failed to run the tool: ${error.message}`)))
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'))
  })
}

function stopOnAbort(child: Child, signal: AbortSignal): () => void {
  let timer: NodeJS.Timeout | undefined
  const stop = () => {
    child.kill('SIGTERM')
    timer = setTimeout(() => child.kill('SIGKILL'), KILL_GRACE_MS)
  }
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  return () => {
    signal.removeEventListener('abort', stop)
    clearTimeout(timer)
  }
}

async function read(stream: Readable, onLine: (line: string) => void): Promise<void> {
  const lines = new LineSplitter(onLine)
  stream.setEncoding('utf8')
  for await (const text of stream) lines.add(String(text))
  lines.end()
}

class BoundedOutput {
  readonly #lines: string[] = []
  #size = 0

  add(line: string): void {
    this.#lines.push(line)
    this.#size += line.length + 1
    while (this.#size > MAX_KEPT_OUTPUT && this.#lines.length > 1)
      this.#size -= (this.#lines.shift()?.length ?? 0) + 1
  }

  text(): string {
    return this.#lines.join('\n')
  }
}
