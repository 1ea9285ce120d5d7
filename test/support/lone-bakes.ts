/** The bakes of one organization, without the rest of a controller. */

import type { RegistryCredential } from '../../src/apis/registry-credential.ts'
import { type Environment, parseConfig } from '../../src/cmd/config.ts'
import { type BoxController, createBoxController } from '../../src/cmd/controller.ts'
import type { ControllerDependencies } from '../../src/cmd/dependencies.ts'
import { createMetrics } from '../../src/cmd/metrics.ts'
import { MutationCache } from '../../src/kube/mutation-cache.ts'
import { Organizations } from '../../src/kube/organizations.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { seeingRecorder } from './seen-events.ts'

export type LoneBakesOptions = {
  /** The API that it uses, restricted to the organization. */
  api: ControllerDependencies['api']
  organization: string
  env: Environment
  /** Called for each line of its log. */
  onLine?: (line: string) => void
}

/** @returns it after it has read the existing objects */
export async function startLoneBakes(options: LoneBakesOptions): Promise<BoxController> {
  const { api, organization, env, onLine = () => undefined } = options
  const clock = createClock()
  const log = createLogger({ level: 'info', clock, destination: { write: onLine } })
  const organizations = new Organizations()
  organizations.apply({ name: organization, uid: 'u-1', ownerEmails: [] })
  const bakes = createBoxController({
    config: parseConfig(env),
    dependencies: {
      api,
      clock,
      random: createRandom(),
      log,
      metrics: createMetrics({ version: '0.0.0-test' }),
      events: seeingRecorder([], { api, clock, log }),
    },
    organizations,
    credentials: new MutationCache<RegistryCredential>(),
  })
  for (const watch of bakes.watches) watch.start()
  await Promise.all(bakes.watches.map((watch) => watch.synced))
  bakes.start()
  return bakes
}
