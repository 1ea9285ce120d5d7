/** `playground.json` in the folder of the state tells scripts what they need while the playground runs. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'

const playgroundFacts = z.object({
  /** Process of the playground. */
  pid: z.number(),
  kubeconfig: z.string(),
  kubectl: z.string(),
  /** The namespace of the organization, which has its name. */
  namespace: z.string(),
  /** Of the REST API, without a slash at its end. */
  baseUrl: z.string(),
  organization: z.string(),
  /** File with a key of an owner of the organization. */
  keyFile: z.string(),
  otherOrganization: z.string(),
  otherKeyFile: z.string(),
  /** Absent where no box is baked. */
  bakes: z
    .object({
      /** Host of the registry, with its port. */
      registry: z.string(),
      /** File with the right password. */
      passwordFile: z.string(),
      /** What the pods of bakes write. */
      log: z.string(),
      /** Each template with the id of its credential. */
      works: z.object({ template: z.string(), credential: z.string() }),
      wrongPassword: z.object({ template: z.string(), credential: z.string() }),
    })
    .optional(),
  receiver: z.string(),
  /** Their names among the replicas, processes, logs and metrics; the first is that of `metrics` and `health`. */
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

/** What the file says, if there is one and what it tells of still answers: one that was killed leaves its file. */
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
