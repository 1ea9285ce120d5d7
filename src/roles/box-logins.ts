import { createBoxLogins } from '../adapters/aws/box-logins.ts'
import { createClock } from '../adapters/system/clock.ts'
import { createRandom } from '../adapters/system/random.ts'
import { parseEcrHost } from '../domain/ecr-host.ts'
import { sessionName } from '../domain/session-policy.ts'
import type { BoxLogins } from '../ports/box-logins.ts'
import { CloudError } from '../ports/cloud-error.ts'
import type { CloudRegistry } from '../ports/registry-tokens.ts'
import { NOOP_METRICS } from './uncounted.ts'
import { VERSION } from './version.ts'

export function boxLogins(): BoxLogins {
  return createBoxLogins({
    clock: createClock(),
    random: createRandom(),
    metrics: NOOP_METRICS,
    userAgent: `davit/${VERSION}`,
    registryOf,
    sessionName,
  })
}

function registryOf(host: string): CloudRegistry {
  const { ecr, problem } = parseEcrHost(host)
  if (ecr === undefined) throw new CloudError('spec', 'NotEcr', `The host ${problem}.`)
  return ecr
}
