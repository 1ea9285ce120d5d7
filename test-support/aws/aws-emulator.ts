/**
 * Emulates the part of AWS that Davit uses: STS, SSM, ECR and KMS over their own protocols, for AWS_ENDPOINT_URL. It is strict
 * wherever AWS is, and fails loudly where it cannot know.
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

export type AwsEmulatorOptions = {
  clock: Clock
  /** Absent: a free port. */
  port?: number
  /** Absent: the limits of AWS; a family that is left out is not limited. */
  rates?: Rates
}

export type AwsEmulator = {
  /** For AWS_ENDPOINT_URL. */
  url: string
  accounts: Accounts
  script: Script
  trail: Trail
  received: Received
  limits: RateLimits
  /** The answer of the registry of a region to a login with a password from GetAuthorizationToken. */
  verifyEcrPassword(login: { username: string; password: string; region: string }): EcrVerdict
  /** Requests for features that the emulator lacks, latest last: a test with any of these proves nothing. */
  defects: readonly NotInTheDouble[]
  stop(): Promise<void>
}

const MAX_DEFECTS = 1_000

export async function startAwsEmulator(options: AwsEmulatorOptions): Promise<AwsEmulator> {
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
