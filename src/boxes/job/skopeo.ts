import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { AUTH_FILE_PATH, openAuthFile } from './auth-file.ts'
import {
  CopyError,
  type CopyObserver,
  type CopyOrder,
  type CopyOutcome,
  type ImageCopier,
} from './image-copier.ts'
import { LineSplitter } from './lines.ts'
import { makeToolHome, type ToolHome } from './tool-home.ts'

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
