/**
 * An AWS emulator for a controller under test: the operator's identity, and accounts whose owners paste the policies from the
 * status.
 */

import { createClock } from '../../../src/lib/time.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import {
  type AwsEmulator,
  type AwsEmulatorOptions,
  startAwsEmulator,
} from '../../../test-support/aws/aws-emulator.ts'

export const REGION = 'eu-west-1'
const OPERATOR_ACCOUNT = '111111111111'
const VARIABLES = [
  'AWS_ENDPOINT_URL',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
] as const

export class TestAws {
  readonly emulator: AwsEmulator
  /** ARN of the operator's own identity. */
  readonly operator: string
  readonly #before: Record<string, string | undefined>

  private constructor(emulator: AwsEmulator, operator: string, environment: Record<string, string>) {
    this.emulator = emulator
    this.operator = operator
    this.#before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]))
    for (const name of VARIABLES) set(name, environment[name])
  }

  /** Points this process's environment to it until `stop`. */
  static async start(options: Partial<AwsEmulatorOptions> = {}): Promise<TestAws> {
    const emulator = await startAwsEmulator({ clock: createClock(), rates: {}, ...options })
    const account = emulator.accounts.add(OPERATOR_ACCOUNT)
    const user = account.addUser('davit', { policies: { own: MAY_ASSUME } })
    const { accessKeyId, secretAccessKey } = account.addAccessKey(user)
    return new TestAws(emulator, user.arn, {
      AWS_ENDPOINT_URL: emulator.url,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    })
  }

  /** The environment variables that a process needs. */
  environment(): Record<string, string> {
    return Object.fromEntries(VARIABLES.flatMap((name) => [[name, process.env[name] ?? '']]))
  }

  /** @param policies as in the status of SecretsSettings */
  account(
    id: string,
    policies: { trustPolicy: string; writerPolicy: string },
  ): { account: Account; role: Role } {
    const account = this.emulator.accounts.add(id)
    const role = account.addRole('davit-secrets', {
      trust: JSON.parse(policies.trustPolicy),
      policies: { writer: JSON.parse(policies.writerPolicy) },
    })
    return { account, role }
  }

  async stop(): Promise<void> {
    for (const name of VARIABLES) set(name, this.#before[name])
    await this.emulator.stop()
  }
}

const MAY_ASSUME = {
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Action: ['sts:AssumeRole', 'sts:TagSession'], Resource: 'arn:aws:iam::*:role/*' },
  ],
}

function set(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name]
  else process.env[name] = value
}
