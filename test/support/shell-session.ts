/** A terminal into which a user pastes one snippet after another: exported variables are kept. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

export type Pasted = {
  code: number | null
  stdout: string
  stderr: string
  /** Statuses of curl's answers, in order. */
  statuses: number[]
}

const PIECE_LIMIT_MS = 60_000
const MARK = 'answered with status'

export type ShellOptions = {
  cwd: string
  /** Folders that are searched for programs before the usual ones. */
  path: string
  /** For one snippet. */
  limitMs?: number
}

export class ShellSession {
  readonly #home: string
  readonly #cwd: string
  readonly #path: string
  readonly #limitMs: number

  private constructor(home: string, { cwd, path, limitMs = PIECE_LIMIT_MS }: ShellOptions) {
    this.#home = home
    this.#cwd = cwd
    this.#path = path
    this.#limitMs = limitMs
  }

  static async start(options: ShellOptions): Promise<ShellSession> {
    const home = await mkdtemp(join(tmpdir(), 'davit-shell-'))
    await writeFile(join(home, '.curlrc'), `write-out = "%{stderr}${MARK} %{http_code}\\n"\n`)
    await writeFile(join(home, 'exported'), '')
    return new ShellSession(home, options)
  }

  async paste(piece: string): Promise<Pasted> {
    const script = `. "$HOME/exported"\ntrap 'export -p >"$HOME/exported"' EXIT\nset -o pipefail\n${piece}`
    const child = spawn('bash', ['-c', script], {
      cwd: this.#cwd,
      env: { HOME: this.#home, PATH: `${this.#path}:${process.env.PATH}`, TERM: 'dumb' },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: AbortSignal.timeout(this.#limitMs),
    })
    const ended = once(child, 'close')
    const [stdout, written, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    const statuses = [...written.matchAll(new RegExp(`${MARK} (\\d+)\\n`, 'g'))].map(([, status]) =>
      Number(status),
    )
    const stderr = written.replaceAll(new RegExp(`${MARK} \\d+\\n`, 'g'), '')
    return { code: code as number | null, stdout, stderr, statuses }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#home, { recursive: true, force: true })
  }
}
