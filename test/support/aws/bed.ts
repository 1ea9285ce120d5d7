/** An operator and an organization, each with its own account, for tests of the emulator. */
import { SSMClient } from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, type AssumeRoleCommandInput, STSClient } from '@aws-sdk/client-sts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import {
  type AwsEmulator,
  type AwsEmulatorOptions,
  startAwsEmulator,
} from '../../../test-support/aws/aws-emulator.ts'
import { FakeClock } from '../fake-clock.ts'

export const REGION = 'eu-central-1'
export const EXTERNAL_ID = 'davit-abcdefgh'

export type SdkCredentials = { accessKeyId: string; secretAccessKey: string; sessionToken?: string }

export type AwsBed = {
  aws: AwsEmulator
  clock: FakeClock
  operator: { account: Account; credentials: SdkCredentials; arn: string }
  organization: { account: Account; role: Role }
  sts(credentials?: SdkCredentials, region?: string): STSClient
  ssm(credentials: SdkCredentials, region?: string): SSMClient
  /** A session of the organization's role. */
  assume(input?: Partial<AssumeRoleCommandInput>): Promise<SdkCredentials>
  stop(): Promise<void>
}

export type AwsBedOptions = Partial<AwsEmulatorOptions> & {
  trust?: Record<string, unknown>
  policy?: Record<string, unknown>
}

/** Without throttling by default, because the clock stands still. */
export async function startAwsBed(options: AwsBedOptions = {}): Promise<AwsBed> {
  const { trust, policy, ...own } = options
  const clock = new FakeClock()
  const aws = await startAwsEmulator({ clock, rates: {}, ...own })
  const operator = addOperator(aws)
  const account = aws.accounts.add('222222222222')
  const role = account.addRole('davit-writer', {
    trust: trust ?? trustPolicy(operator.arn),
    policies: { writer: policy ?? ALLOW_ALL },
  })
  const clients = new Set<{ destroy(): void }>()
  const keep = <Client extends { destroy(): void }>(client: Client): Client => {
    clients.add(client)
    return client
  }
  const config = (credentials: SdkCredentials, region = REGION) => ({
    endpoint: aws.url,
    region,
    credentials,
    maxAttempts: 1,
    // The emulator uses the time of the test; otherwise the SDK would learn the offset from a rejection.
    systemClockOffset: clock.now() - Date.now(),
  })
  const sts = (credentials = operator.credentials, region?: string) =>
    keep(new STSClient(config(credentials, region)))
  return {
    aws,
    clock,
    operator,
    organization: { account, role },
    sts,
    ssm: (credentials, region) => keep(new SSMClient(config(credentials, region))),
    async assume(input = {}) {
      const { Credentials } = await sts().send(
        new AssumeRoleCommand({
          RoleArn: role.arn,
          RoleSessionName: 'davit-acme',
          ExternalId: EXTERNAL_ID,
          ...input,
        }),
      )
      return {
        accessKeyId: Credentials?.AccessKeyId ?? '',
        secretAccessKey: Credentials?.SecretAccessKey ?? '',
        sessionToken: Credentials?.SessionToken ?? '',
      }
    },
    async stop() {
      for (const client of clients) client.destroy()
      await aws.stop()
    },
  }
}

export const ALLOW_ALL = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }],
}

export function trustPolicy(principal: string, externalId = EXTERNAL_ID): Record<string, unknown> {
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: principal },
        Action: 'sts:AssumeRole',
        Condition: { StringEquals: { 'sts:ExternalId': externalId } },
      },
      { Effect: 'Allow', Principal: { AWS: principal }, Action: 'sts:TagSession' },
    ],
  }
}

function addOperator(aws: AwsEmulator): AwsBed['operator'] {
  const account = aws.accounts.add('111111111111')
  const user = account.addUser('davit', {
    policies: {
      assume: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Action: ['sts:AssumeRole', 'sts:TagSession'],
            Resource: 'arn:aws:iam::*:role/*',
          },
        ],
      },
    },
  })
  return { account, credentials: account.addAccessKey(user), arn: user.arn }
}
