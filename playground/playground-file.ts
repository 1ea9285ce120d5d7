/** `playground.json` in the state folder gives scripts the facts of the running playground. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'

const playgroundFacts = z.object({
  /** Process id of the playground. */
  pid: z.number(),
  kubeconfig: z.string(),
  kubectl: z.string(),
  /** The namespace of the organization, which has its name. */
  namespace: z.string(),
  /** Base URL of the REST API, without a trailing slash. */
  baseUrl: z.string(),
  organization: z.string(),
  /** File with an API token of an owner of the organization. */
  keyFile: z.string(),
  otherOrganization: z.string(),
  otherKeyFile: z.string(),
  /** Absent if no box is baked. */
  bakes: z
    .object({
      /** Host and port of the registry. */
      registry: z.string(),
      /** File with the correct password. */
      passwordFile: z.string(),
      /** Output of the pods of bakes. */
      log: z.string(),
      /** Each template with the id of its credential. */
      works: z.object({ template: z.string(), credential: z.string() }),
      wrongPassword: z.object({ template: z.string(), credential: z.string() }),
    })
    .optional(),
  receiver: z.string(),
  /** Replica names, processes, logs and metrics; `metrics` and `health` are those of the first. */
  controllers: z
    .array(
      z.object({ replica: z.string(), pid: z.number().optional(), log: z.string(), metrics: z.string() }),
    )
    .optional(),
  metrics: z.string(),
  health: z.string(),
})
export type PlaygroundFacts = z.infer<typeof playgroundFacts>

const ANSWER_LIMIT_MS = 1000

/** Written atomically, and readable only by its owner. */
export async function writePlaygroundFile(path: string, facts: PlaygroundFacts): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const temporary = `${path}.${facts.pid}`
  await writeFile(temporary, `${JSON.stringify(facts, undefined, 2)}\n`, { mode: 0o600 })
  await rename(temporary, path)
}

export async function removePlaygroundFile(path: string): Promise<void> {
  await rm(path, { force: true })
}

/** The facts in the file if its playground still answers: a killed playground leaves its file. */
export async function findRunning(path: string): Promise<PlaygroundFacts | undefined> {
  const text = await readFile(path, 'utf8').catch(() => 'null')
  const parsed = playgroundFacts.safeParse(jsonOrUndefined(text))
  if (!parsed.success) return undefined
  const signal = AbortSignal.timeout(ANSWER_LIMIT_MS)
  const answer = await fetch(parsed.data.health, { signal }).catch(() => undefined)
  return answer?.ok ? parsed.data : undefined
}

function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
