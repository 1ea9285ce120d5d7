/** Logins from AWS. A file of its own, which node-helpers.ts loads only when a login is needed. */
import { parseEcrHost } from '../apis/registry-host.ts'
import { sessionName } from '../credentials/aws/policies.ts'
import { createBoxLogins } from '../credentials/aws/registry-logins.ts'
import { type BoxLogins, CloudError } from '../credentials/cloud.ts'
import { NOOP_METRICS } from '../lib/metrics.ts'
import { createClock, createRandom } from '../lib/time.ts'
import { VERSION } from '../lib/version.ts'

export function boxLogins(): BoxLogins {
  return createBoxLogins({
    clock: createClock(),
    random: createRandom(),
    metrics: NOOP_METRICS,
    userAgent: `davit/${VERSION}`,
    registryOf: (host) => {
      const { ecr, problem } = parseEcrHost(host)
      if (ecr === undefined) throw new CloudError('spec', 'NotEcr', `The host ${problem}.`)
      return ecr
    },
    sessionName,
  })
}
