/** The AWS adapter against the emulator, with an operator and organizations that share one account or have their own. */

import { randomBytes } from 'node:crypto'
import { CloudAccounts } from '../../../src/credentials/aws/cloud-accounts.ts'
import type { SessionRules } from '../../../src/credentials/aws/sessions.ts'
import type { CloudAccess, NewParameter } from '../../../src/credentials/cloud.ts'
import type { CloudMetrics } from '../../../src/lib/metrics.ts'
import { FairRateLimiters, type FairRateLimits } from '../../../src/lib/rate-limit.ts'
import { SecretText } from '../../../src/lib/redact.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import { type AwsEmulator, startAwsEmulator } from '../../../test-support/aws/aws-emulator.ts'
import type { Rates } from '../../../test-support/aws/rates.ts'
import { RushingClock } from '../rushing-clock.ts'

export const REGION = 'eu-central-1'
const BUCKET = { perSecond: 1000, burst: 1000, maxWaiting: 10_000, maxWaitingOfFlow: 5000, maxKeys: 100 }

export type AccountsBed = {
  aws: AwsEmulator
  clock: RushingClock
  cloud: CloudAccounts
  counted: CountedCalls
  account: Account
  role: Role
  /** Adds another role with the same policies. */
  addRole(name: string): Role
  /** Gives the operator a new key in the environment. */
  newOperatorKey(): void
  /** How far the machine's clock is ahead of AWS's, in milliseconds. */
  machine: { aheadMs: number }
  /** Access to an organization of the account. */
  access(organization: string, more?: Partial<CloudAccess>): CloudAccess
  stop(): Promise<void>
}

export type AccountsBedOptions = {
  rates?: Rates
  writes?: Partial<FairRateLimits>
  policy?: Record<string, unknown>
  /** Actions of the operator's own identity in addition to assuming roles. */
  operatorActions?: string[]
  trust?: (operatorArn: string) => Record<string, unknown>
  rules?: SessionRules
  sessionSeconds?: number
  maxSessions?: number
}

/** The SDK's environment while a bed is in use. */
const ENVIRONMENT = ['AWS_ENDPOINT_URL', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']

export async function startAccountsBed(options: AccountsBedOptions = {}): Promise<AccountsBed> {
  const clock = new RushingClock()
  const machine = { aheadMs: 0 }
  const realNow = Date.now
  // The SDK signs with the machine's time, which it reads itself.
  Date.now = () => clock.now() + machine.aheadMs
  const aws = await startAwsEmulator({ clock, rates: options.rates ?? {} })
  const operator = aws.accounts.add('111111111111')
  const user = operator.addUser('davit', {
    policies: { own: allowed(['sts:AssumeRole', 'sts:TagSession', ...(options.operatorActions ?? [])]) },
  })
  const before = Object.fromEntries(ENVIRONMENT.map((name) => [name, process.env[name]]))
  const newOperatorKey = () => {
    const { accessKeyId, secretAccessKey } = operator.addAccessKey(user)
    setEnvironment({ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey })
  }
  setEnvironment({ AWS_ENDPOINT_URL: aws.url, AWS_SESSION_TOKEN: undefined })
  newOperatorKey()
  const account = aws.accounts.add('222222222222')
  const addRole = (name: string) =>
    account.addRole(name, {
      trust: (options.trust ?? trustAll)(user.arn),
      policies: { writer: options.policy ?? WRITER },
    })
  const role = addRole('davit-writer')
  const counted = new CountedCalls()
  const writes = new FairRateLimiters(clock, { ...BUCKET, ...options.writes })
  const lists = new FairRateLimiters(clock, BUCKET)
  const cloud = new CloudAccounts({
    clock,
    random: { fraction: () => 0.5, bytes: (count) => randomBytes(count) },
    metrics: counted,
    userAgent: 'davit/test',
    sessionRules: options.rules ?? sessionRules,
    writeTurns: (location) => writes.forKey(location),
    listTurns: (location) => lists.forKey(location),
    ...(options.sessionSeconds !== undefined && { sessionSeconds: options.sessionSeconds }),
    ...(options.maxSessions !== undefined && { maxSessions: options.maxSessions }),
  })
  return {
    aws,
    clock,
    cloud,
    counted,
    account,
    role,
    addRole,
    newOperatorKey,
    machine,
    access: (organization, more = {}) => ({
      organization,
      organizationUid: `uid-${organization}`,
      roleArn: role.arn,
      region: REGION,
      externalId: `davit-${organization}`,
      ...more,
    }),
    async stop() {
      Date.now = realNow
      setEnvironment(before)
      cloud.close()
      await aws.stop()
    },
  }
}

export function parameter(name: string, value = 'the-value-of-the-secret'): NewParameter {
  const tags = { 'davit.dev/installation': 'here', 'davit.dev/organization-uid': 'uid-acme' }
  return { name, value: new SecretText(value), description: 'Made by Davit', tags }
}

/** A short version of the domain's rules. */
export const sessionRules: SessionRules = ({ organization, organizationUid }, purpose) => ({
  name: `davit-${organization}`,
  tags: { 'davit.dev/organization': organization, 'davit.dev/organization-uid': organizationUid },
  policy: JSON.stringify({
    Version: '2012-10-17',
    Statement: purpose === 'write' ? writeStatements(organization) : probeStatements(organization),
  }),
})

function writeStatements(organization: string): object[] {
  return [
    {
      Effect: 'Allow',
      Action: ['ssm:PutParameter', 'ssm:DeleteParameter', 'ssm:AddTagsToResource', 'ssm:ListTagsForResource'],
      Resource: `arn:aws:ssm:*:*:parameter/davit/${organization}/*`,
    },
    {
      Effect: 'Allow',
      Action: ['ssm:DescribeParameters', 'kms:Encrypt', 'kms:GenerateDataKey'],
      Resource: '*',
    },
    { Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ]
}

function probeStatements(organization: string): object[] {
  const own = `arn:aws:ssm:*:*:parameter/davit/${organization}`
  return [{ Effect: 'Allow', Action: 'ssm:GetParameter*', Resource: [own, `${own}/rc__probe`] }]
}

/** Counts calls by operation and code. */
export class CountedCalls implements CloudMetrics {
  readonly calls: [operation: string, code: string][] = []
  readonly retries: [operation: string, code: string][] = []
  readonly turns: number[] = []

  cloudCall(operation: string, code: string): void {
    this.calls.push([operation, code])
  }

  cloudRetry(operation: string, code: string): void {
    this.retries.push([operation, code])
  }

  cloudTurn(_operation: string, seconds: number): void {
    this.turns.push(seconds)
  }

  /** Codes of an operation's attempts, in order. */
  codesOf(operation: string): string[] {
    return this.calls.filter(([name]) => name === operation).map(([, code]) => code)
  }
}

function allowed(Action: string[]): Record<string, unknown> {
  return { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action, Resource: '*' }] }
}

/** A writer without read permission. */
export const WRITER = {
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Action: ['ssm:*', 'kms:*'], Resource: '*' },
    { Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ],
}

/** One role for several organizations of a test, each with its own external id. */
function trustAll(operatorArn: string): Record<string, unknown> {
  const Principal = { AWS: operatorArn }
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal,
        Action: 'sts:AssumeRole',
        Condition: { StringEquals: { 'sts:ExternalId': EXTERNAL_IDS } },
      },
      { Effect: 'Allow', Principal, Action: 'sts:TagSession' },
    ],
  }
}

/** Organizations that may assume the role of the bed. */
export const ORGANIZATIONS: readonly string[] = [
  'acme',
  'umbrella',
  ...Array.from({ length: 50 }, (_, i) => `org-${i}`),
]
const EXTERNAL_IDS = ORGANIZATIONS.map((name) => `davit-${name}`)

function setEnvironment(values: Record<string, string | undefined>): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}
