/** The accounts of organizations at AWS, on Davit's terms. */
import { type CloudAccounts, createCloudAccounts } from '../credentials/aws/aws-cloud-accounts.ts'
import { sessionName, sessionPolicy, sessionTags } from '../credentials/aws/policies.ts'
import type { SessionRules } from '../credentials/aws/session-terms.ts'
import { FairRateLimiters } from '../lib/fair-buckets.ts'
import type { CloudMetrics } from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Config } from './config.ts'

export type OrganizationAccountsOptions = {
  config: Config['cloud']
  version: string
  clock: Clock
  random: Random
  metrics: CloudMetrics
}

/** A listing is one call for all credentials of an organization; AWS takes less than one a second. */
const LISTINGS = { perSecond: 0.5, burst: 2 }
const WRITE_BURST = 3
const QUEUES = { maxKeys: 10_000, maxWaiting: 100_000, maxWaitingOfFlow: 10_000 }

export function createOrganizationAccounts(options: OrganizationAccountsOptions): CloudAccounts {
  const { config, version, clock, random, metrics } = options
  const writes = { perSecond: config.writesPerSecond, burst: WRITE_BURST }
  const writeTurns = new FairRateLimiters(clock, { ...writes, ...QUEUES })
  const listTurns = new FairRateLimiters(clock, { ...LISTINGS, ...QUEUES })
  return createCloudAccounts({
    clock,
    random,
    metrics,
    userAgent: `davit/${version}`,
    sessionRules: sessionRules(config.parameterPrefix),
    writeTurns: (key) => writeTurns.forKey(key),
    listTurns: (key) => listTurns.forKey(key),
  })
}

function sessionRules(prefix: string): SessionRules {
  return (access, purpose) => ({
    name: sessionName(access.organization),
    policy: JSON.stringify(sessionPolicy(access, prefix, purpose)),
    tags: sessionTags(access),
  })
}
