import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

const CALL_LIMIT_MS = 60_000

/** kubectl failed; the message is its stderr. */
export class KubectlFailed extends Error {
  override readonly name = 'KubectlFailed'
  readonly exitCode: number | null
  readonly stdout: string

  constructor(args: readonly string[], exitCode: number | null, output: { stdout: string; stderr: string }) {
    super(`kubectl ${args.join(' ')}: exit code ${exitCode}: ${output.stderr}`)
    this.exitCode = exitCode
    this.stdout = output.stdout
  }
}

/**
 * @returns its stdout
 * @throws KubectlFailed
 */
export async function runKubectl(program: string, args: readonly string[], stdin: string): Promise<string> {
  const child = spawn(program, args, {
    signal: AbortSignal.timeout(CALL_LIMIT_MS),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // It may reject its arguments and exit before it has read.
  child.stdin.on('error', () => {})
  child.stdin.end(stdin)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  if (code !== 0) throw new KubectlFailed(args, code, { stdout, stderr })
  return stdout
}
