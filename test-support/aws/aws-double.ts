/**
 * A double of AWS, as far as Davit uses it: STS, SSM, ECR and KMS over their own protocols, for AWS_ENDPOINT_URL. It is
 * strict where AWS is, and says so where it cannot know.
 */
import type { Clock } from '../../src/lib/time.ts'
import { Accounts } from './accounts.ts'
import type { NotInTheDouble } from './aws-error.ts'
import { type EcrVerdict, RegistryTokens } from './ecr/registry-tokens.ts'
import { exchange } from './exchange.ts'
import { startHttpServer } from './http-server.ts'
import { DEFAULT_RATES, RateLimits, type Rates } from './rates.ts'
import { Received } from './received.ts'
import { Script } from './script.ts'
import { Trail } from './trail.ts'

export type AwsDoubleOptions = {
  clock: Clock
  /** Absent: a free one. */
  port?: number
  /** Absent: those of AWS; a family that is left out is not limited. */
  rates?: Rates
}

export type AwsDouble = {
  /** For AWS_ENDPOINT_URL. */
  url: string
  accounts: Accounts
  script: Script
  trail: Trail
  received: Received
  limits: RateLimits
  /** What the registry of a region says to a login with a password out of GetAuthorizationToken. */
  verifyEcrPassword(login: { username: string; password: string; region: string }): EcrVerdict
  /** What was asked for that the double has not, the latest last: a test with any of these proves nothing. */
  defects: readonly NotInTheDouble[]
  stop(): Promise<void>
}

const MAX_DEFECTS = 1_000

export async function startAwsDouble(options: AwsDoubleOptions): Promise<AwsDouble> {
  const { clock } = options
  const [accounts, script, trail, received] = [new Accounts(), new Script(), new Trail(), new Received()]
  const limits = new RateLimits(clock, options.rates ?? DEFAULT_RATES)
  const defects: NotInTheDouble[] = []
  const onDefect = (defect: NotInTheDouble) => {
    if (defects.length < MAX_DEFECTS) defects.push(defect)
  }
  const registryTokens = new RegistryTokens()
  const changing = new Set<string>()
  const parts = { changing, accounts, registryTokens, clock, limits, script, trail, onDefect }
  const server = await startHttpServer({
    port: options.port ?? 0,
    clock,
    received,
    answer: (request) => exchange(parts, request),
  })
  return {
    ...server,
    accounts,
    script,
    trail,
    received,
    limits,
    defects,
    verifyEcrPassword: (login) => registryTokens.verify({ ...login, now: clock.now() }),
  }
}
