/** The part of a kubelet that calls credential providers, built from its own source and cached. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { buildGoProgram } from '../go-program.ts'

/** @returns the path of the program */
export async function buildKubeletPull(announce?: () => void): Promise<string> {
  return await buildGoProgram('kubelet-pull', fileURLToPath(new URL('.', import.meta.url)), announce)
}

/** A pod that is about to run, and its image. */
export type PodPull = {
  namespace: string
  pod: string
  uid: string
  serviceAccount: string
  annotations?: Record<string, string>
  /** A token of the API server for the service account. */
  token: string
  image: string
}

export type PullAnswer = {
  credentials: { username: string; password: string }[]
  /** Audiences for which a token was requested. */
  audiences: string[]
}

/** One kubelet with its caches. */
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

  /** The kubelet's log. */
  get log(): string {
    return this.#log
  }

  /** Fails with the output if the program does not start. */
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
