/** `.davit/playground.json` tells scripts what they need while the playground runs. */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

export type PlaygroundFacts = {
  /** Process of the playground. */
  pid: number
  kubeconfig: string
  kubectl: string
  /** The organization. */
  namespace: string
  receiver: string
  metrics: string
  health: string
}

/** For its owner alone, and never half written. */
export async function writePlaygroundFile(path: string, facts: PlaygroundFacts): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const temporary = `${path}.${facts.pid}`
  await writeFile(temporary, `${JSON.stringify(facts, undefined, 2)}\n`, { mode: 0o600 })
  await rename(temporary, path)
}

export async function removePlaygroundFile(path: string): Promise<void> {
  await rm(path, { force: true })
}
