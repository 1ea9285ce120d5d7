import type { AccountProbes, ParameterListing, ParameterStore } from '../cloud.ts'
import type { AwsDependencies } from './calls.ts'
import { AwsClients } from './clients.ts'
import { createAccountProbes } from './cloud-accounts.ts'
import { createParameterListing } from './parameter-listing.ts'
import { createParameterStore } from './parameter-store.ts'
import type { SessionRules } from './session-terms.ts'
import { Sessions } from './sessions.ts'
import { type RateLimiterFor, SsmCalls } from './ssm-calls.ts'

export type CloudAccountsOptions = AwsDependencies & {
  /** As `davit/0.1.0`. */
  userAgent: string
  /** On what terms Davit assumes an organization's role. */
  sessionRules: SessionRules
  /** Turns of an account and region for writes, and for listings. */
  writeTurns: RateLimiterFor
  listTurns: RateLimiterFor
  /** Default 3,600, the most that a role can have which is itself assumed by a role. */
  sessionSeconds?: number
  maxSessions?: number
}

export type CloudAccounts = ParameterStore & ParameterListing & AccountProbes & { close(): void }

const SESSION_SECONDS = 3600
const MAX_SESSIONS = 2000

/** The accounts of organizations at AWS. Nothing of the SDK is loaded before the first call. */
export function createCloudAccounts(options: CloudAccountsOptions): CloudAccounts {
  const { clock, random, metrics, writeTurns, listTurns } = options
  const world = { clock, random, metrics }
  const clients = new AwsClients(options.userAgent)
  const sessions = new Sessions({
    ...world,
    clients,
    rules: options.sessionRules,
    sessionSeconds: options.sessionSeconds ?? SESSION_SECONDS,
    maxSessions: options.maxSessions ?? MAX_SESSIONS,
  })
  const calls = new SsmCalls({ world, clients, sessions })
  const listing = createParameterListing({ calls, listTurns })
  return {
    ...createParameterStore({ calls, tagsOf: listing.tagsOf, writeTurns, random }),
    ...listing,
    ...createAccountProbes({ world, clients, sessions, calls }),
    close: () => clients.close(),
  }
}
