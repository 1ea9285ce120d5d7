import { parseEcrHost } from '../apis/ecr-host.ts'
import { createBoxLogins } from '../credentials/aws/box-logins.ts'
import { sessionName } from '../credentials/aws/policies.ts'
import type { BoxLogins } from '../credentials/box-logins.ts'
import { CloudError } from '../credentials/cloud-error.ts'
import type { CloudRegistry } from '../credentials/registry-tokens.ts'
import { createRandom } from '../lib/random.ts'
import { createClock } from '../lib/system-clock.ts'
import { NOOP_METRICS } from '../lib/uncounted.ts'
import { VERSION } from '../lib/version.ts'

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
