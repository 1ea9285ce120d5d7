/** The verdicts of Flux, Helm 4 and Argo CD on an object, by their own code (tools/gitops). */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { buildGoProgram } from '../go-program.ts'

type Verdict = { status: string; message: string }

export type Health = { kstatus: Verdict; argo: Verdict }

const LIMIT_MS = 60_000

/** Builds them the first time. @returns the path of the program */
export function buildHealthReaders(announce?: () => void): Promise<string> {
  const home = fileURLToPath(new URL('../../../tools/gitops', import.meta.url))
  return buildGoProgram('gitops-health', home, announce)
}

/** @param script the health check of Argo CD, in Lua @returns in the order of the objects */
export async function healthOf(script: string, objects: readonly object[]): Promise<Health[]> {
  const child = spawn(await buildHealthReaders(), { stdio: 'pipe', signal: AbortSignal.timeout(LIMIT_MS) })
  child.stdin.end(JSON.stringify({ script, objects }))
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  if (code !== 0) throw new Error(`the health check ended with ${code}: ${stderr}`)
  return JSON.parse(stdout) as Health[]
}
