/**
 * The command `davit check`, which `helm test` runs: both roles are ready, and the REST API knows a key of this cluster from
 * none. It publishes nothing and changes nothing.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CheckConfig, type Environment, parseCheckConfig } from './config.ts'

type Question = { what: string; url: string; headers?: Record<string, string>; want: number }

const ASK_MS = 5000
const AGAIN_MS = 1000

/** @returns the exit code: 0 when all is as it should be @throws ConfigError */
export async function runCheck(environment: Environment): Promise<number> {
  const config = parseCheckConfig(environment)
  const deadline = performance.now() + config.limitMs
  let isWell = true
  for (const question of await questions(config)) {
    const problem = await untilAnswered(question, deadline)
    process.stdout.write(`${problem === undefined ? 'ok    ' : 'FAILED'} ${question.what}${problem ?? ''}\n`)
    if (problem !== undefined) isWell = false
  }
  return isWell ? 0 : 1
}

async function questions({ ready, api, tokenFile, organization }: CheckConfig): Promise<Question[]> {
  const readiness = ready.map((url) => ({ what: `${url} is ready`, url, want: 200 }))
  if (api === undefined) return readiness
  const closed = `${api}/organizations/${encodeURIComponent(organization)}/webhooks`
  const key = tokenFile === undefined ? undefined : (await readFile(tokenFile, 'utf8')).trim()
  return [
    ...readiness,
    { what: 'the REST API describes itself', url: `${api}/openapi.json`, want: 200 },
    { what: 'it lets nobody in without a key', url: closed, want: 401 },
    // The key is one; what it asks for it may not know of.
    ...(key === undefined
      ? []
      : [
          { what: 'it knows a key of this cluster', url: closed, headers: { authorization: key }, want: 404 },
        ]),
  ]
}

/** @returns what is wrong, in words; undefined when it was answered as wanted before the deadline */
async function untilAnswered(question: Question, deadline: number): Promise<string | undefined> {
  for (;;) {
    const problem = await ask(question)
    if (problem === undefined || performance.now() > deadline) return problem
    await sleep(AGAIN_MS)
  }
}

async function ask({ url, headers = {}, want }: Question): Promise<string | undefined> {
  try {
    const answer = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(ASK_MS) })
    const body = (await answer.text()).slice(0, 200)
    return answer.status === want ? undefined : `: answered ${answer.status}, not ${want}: ${body}`
  } catch (error) {
    return `: no answer: ${reasonOf(error)}`
  }
}

/** `fetch` hides the reason in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
