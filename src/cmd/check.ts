/**
 * The command `davit check`, which `helm test` runs: checks that both roles are ready, and that the REST API accepts tokens of this
 * cluster only. It changes nothing.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CheckConfig, type Environment, parseCheckConfig } from './config.ts'

type Probe = { what: string; url: string; headers?: Record<string, string>; want: number }

const ASK_MS = 5000
const AGAIN_MS = 1000

/** @returns the exit code: 0 when all checks pass @throws ConfigError */
export async function runCheck(environment: Environment): Promise<number> {
  const config = parseCheckConfig(environment)
  const deadline = performance.now() + config.limitMs
  let isWell = true
  for (const probe of await probes(config)) {
    const problem = await untilAnswered(probe, deadline)
    process.stdout.write(`${problem === undefined ? 'ok    ' : 'FAILED'} ${probe.what}${problem ?? ''}\n`)
    if (problem !== undefined) isWell = false
  }
  return isWell ? 0 : 1
}

async function probes({ ready, api, tokenFile, organization }: CheckConfig): Promise<Probe[]> {
  const readiness = ready.map((url) => ({ what: `${url} is ready`, url, want: 200 }))
  if (api === undefined) return readiness
  const closed = `${api}/organizations/${encodeURIComponent(organization)}/webhooks`
  const key = tokenFile === undefined ? undefined : (await readFile(tokenFile, 'utf8')).trim()
  return [
    ...readiness,
    { what: 'the REST API describes itself', url: `${api}/openapi.json`, want: 200 },
    { what: 'it lets nobody in without a key', url: closed, want: 401 },
    // The token is valid but has no rights, so that nothing is found.
    ...(key === undefined
      ? []
      : [
          { what: 'it knows a key of this cluster', url: closed, headers: { authorization: key }, want: 404 },
        ]),
  ]
}

/** @returns what is wrong; undefined once the expected response came */
async function untilAnswered(probe: Probe, deadline: number): Promise<string | undefined> {
  for (;;) {
    const problem = await ask(probe)
    if (problem === undefined || performance.now() > deadline) return problem
    await sleep(AGAIN_MS)
  }
}

async function ask({ url, headers = {}, want }: Probe): Promise<string | undefined> {
  try {
    const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(ASK_MS) })
    const body = (await response.text()).slice(0, 200)
    return response.status === want ? undefined : `: answered ${response.status}, not ${want}: ${body}`
  } catch (error) {
    return `: no answer: ${reasonOf(error)}`
  }
}

/** `fetch` hides the reason in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
