/**
 * The command `davit check`, which `helm test` runs: checks that both roles are ready, that the REST API accepts tokens of this
 * cluster only, and that an endpoint receives a signed delivery. Without an address for deliveries, it changes nothing.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkDelivery, reasonOf } from './check-delivery.ts'
import { type CheckConfig, type Environment, parseCheckConfig } from './config.ts'

type Probe = { what: string; url: string; headers?: Record<string, string>; want: number }

const ASK_MS = 5000
const AGAIN_MS = 1000

/** @returns the exit code: 0 when all checks pass @throws ConfigError */
export async function runCheck(environment: Environment): Promise<number> {
  const config = parseCheckConfig(environment)
  const deadline = performance.now() + config.limitMs
  let isWell = true
  const report = (what: string, problem: string | undefined) => {
    process.stdout.write(
      `${problem === undefined ? 'ok    ' : 'FAILED'} ${what}${problem ? `: ${problem}` : ''}\n`,
    )
    if (problem !== undefined) isWell = false
  }
  const token = config.tokenFile === undefined ? undefined : (await readFile(config.tokenFile, 'utf8')).trim()
  for (const probe of probes(config, token)) report(probe.what, await untilAnswered(probe, deadline))
  const { api, delivery, organization, limitMs } = config
  if (api === undefined)
    process.stdout.write('skipped the REST API and the delivery: DAVIT_CHECK_API is not set\n')
  else if (delivery === undefined || token === undefined)
    process.stdout.write(
      'skipped the delivery: DAVIT_CHECK_DELIVERY_URL or DAVIT_CHECK_TOKEN_FILE is not set\n',
    )
  else if (isWell)
    report(
      'an endpoint receives a signed delivery',
      await checkDelivery({ api, token, organization, limitMs, ...delivery }),
    )
  return isWell ? 0 : 1
}

function probes({ ready, api, organization, delivery }: CheckConfig, token: string | undefined): Probe[] {
  const readiness = ready.map((url) => ({ what: `${url} is ready`, url, want: 200 }))
  if (api === undefined) return readiness
  const closed = `${api}/organizations/${encodeURIComponent(organization)}/webhooks`
  return [
    ...readiness,
    { what: 'the REST API serves its OpenAPI document', url: `${api}/openapi.json`, want: 200 },
    { what: 'the REST API rejects requests without an API token', url: closed, want: 401 },
    ...(token === undefined
      ? []
      : [
          {
            what: 'the REST API accepts API tokens of this cluster',
            url: closed,
            headers: { authorization: token },
            // Without permissions in the organization, a valid token finds nothing.
            want: delivery === undefined ? 404 : 200,
          },
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
    return response.status === want ? undefined : `expected status ${want}, got ${response.status}: ${body}`
  } catch (error) {
    return `no response: ${reasonOf(error)}`
  }
}
