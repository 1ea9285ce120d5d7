/**
 * A box: credentials files that bakes have written, secrets in an AWS emulator, and the two programs, called the way tools and
 * kubelet call them.
 */

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts'
import type { BoxCredential } from '../../../src/apis/box-credentials.ts'
import { awsScopeOf } from '../../../src/credentials/aws/names.ts'
import { readerPolicy } from '../../../src/credentials/aws/policies.ts'
import { createClock } from '../../../src/lib/time.ts'
import type { Account, Credentials, Role } from '../../../test-support/aws/account.ts'
import { type AwsEmulator, startAwsEmulator } from '../../../test-support/aws/aws-emulator.ts'
import { type RoleSession, startInstanceMetadata } from './instance-metadata.ts'

export const ACCOUNT = '123456789012'
export const REGION = 'eu-west-1'
/** The folder in which docker and kubelet look for the programs. */
export const PROGRAMS = fileURLToPath(new URL('../../../bin', import.meta.url))

export type Ran = { exitCode: number; stdout: string; stderr: string; ms: number }

export type RunOptions = { input?: string; environment?: Record<string, string> }

const RUN_LIMIT_MS = 60_000

export class BoxBed {
  readonly folder: string
  readonly aws: AwsEmulator
  readonly account: Account
  /** The role of the machine; it may read the parameters of acme. */
  readonly role: Role
  readonly #owner: Credentials
  readonly #metadata: Awaited<ReturnType<typeof startInstanceMetadata>>

  private constructor(parts: {
    folder: string
    aws: AwsEmulator
    account: Account
    role: Role
    owner: Credentials
    metadata: Awaited<ReturnType<typeof startInstanceMetadata>>
  }) {
    this.folder = parts.folder
    this.aws = parts.aws
    this.account = parts.account
    this.role = parts.role
    this.#owner = parts.owner
    this.#metadata = parts.metadata
  }

  static async start(): Promise<BoxBed> {
    const folder = await mkdtemp(join(tmpdir(), 'davit-box-'))
    const aws = await startAwsEmulator({ clock: createClock(), rates: {} })
    const account = aws.accounts.add(ACCOUNT)
    const user = account.addUser('owner', { policies: { all: allowed(['ssm:*', 'kms:*', 'sts:*']) } })
    const owner = account.addAccessKey(user)
    const role = account.addRole('machine', {
      trust: trusting(user.arn),
      policies: { reader: readerOf('acme') },
    })
    const session = await sessionOf(aws, owner, role)
    const metadata = await startInstanceMetadata(session)
    return new BoxBed({ folder, aws, account, role, owner, metadata })
  }

  /** Writes a version of a parameter as the owner of the account. */
  async put(name: string, value: string): Promise<number> {
    const ssm = new SSMClient({ region: REGION, endpoint: this.aws.url, credentials: this.#owner })
    const input = { Name: name, Value: value, Type: 'SecureString', Overwrite: true } as const
    const { Version = 0 } = await ssm.send(new PutParameterCommand(input))
    ssm.destroy()
    return Version
  }

  /** Creates a credential with a stored secret. */
  async token(of: {
    id: string
    registry: string
    repositories: string[]
    secret: string
    username?: string
    organization?: string
  }): Promise<BoxCredential> {
    const { id, registry, repositories, secret, username = 'acme-bot', organization = 'acme' } = of
    const name = `/davit/${organization}/${id}`
    const version = await this.put(name, secret)
    const parameter = { name, version, region: REGION }
    return { id, type: 'token', registry, repositories, username, parameter }
  }

  /** Writes the credentials file like a bake of the template. */
  async map(template: string, credentials: BoxCredential[], namespace = 'acme'): Promise<string> {
    const folder = join(this.folder, 'maps', namespace, template)
    const path = join(folder, 'credentials.json')
    await mkdir(folder, { recursive: true })
    const map = { version: 1, template: { namespace, name: template }, bake: `${template}-1`, credentials }
    await writeFile(path, JSON.stringify(map), { mode: 0o644 })
    return path
  }

  async removeMaps(): Promise<void> {
    await rm(join(this.folder, 'maps'), { recursive: true, force: true })
  }

  /** The environment of a machine with this role, without any variable of the tests. */
  environment(): Record<string, string> {
    return {
      PATH: `${PROGRAMS}:${process.env.PATH ?? ''}`,
      HOME: this.folder,
      AWS_ENDPOINT_URL: this.aws.url,
      AWS_EC2_METADATA_SERVICE_ENDPOINT: this.#metadata.url,
      DAVIT_CREDENTIALS: join(this.folder, 'maps'),
    }
  }

  /** Runs without a shell. */
  run(
    program: string,
    args: readonly string[],
    { input = '', environment = {} }: RunOptions = {},
  ): Promise<Ran> {
    const env = { ...this.environment(), ...environment }
    const begin = performance.now()
    return new Promise((resolve) => {
      const child = execFile(program, args, { env, timeout: RUN_LIMIT_MS }, (error, stdout, stderr) => {
        const exitCode = typeof error?.code === 'number' ? error.code : error ? -1 : 0
        const words = error && exitCode === -1 ? `${stderr}${error.message}` : stderr
        resolve({ exitCode, stdout, stderr: words, ms: performance.now() - begin })
      })
      child.stdin?.on('error', () => {})
      child.stdin?.end(input)
    })
  }

  ask(action: string, input: string, environment: Record<string, string> = {}): Promise<Ran> {
    return this.run(join(PROGRAMS, 'docker-credential-davit'), [action], { input, environment })
  }

  async stop(): Promise<void> {
    await this.#metadata.stop()
    await this.aws.stop()
    await rm(this.folder, { recursive: true, force: true })
  }
}

/** The reader policy for boxes in the status of SecretsSettings. */
export function readerOf(organization: string) {
  return readerPolicy({
    awsScope: awsScopeOf(REGION, ACCOUNT),
    prefix: '/davit',
    organization,
    kmsKeyId: undefined,
  })
}

async function sessionOf(aws: AwsEmulator, owner: Credentials, role: Role): Promise<RoleSession> {
  const sts = new STSClient({ region: REGION, endpoint: aws.url, credentials: owner })
  const command = new AssumeRoleCommand({ RoleArn: role.arn, RoleSessionName: 'i-0123456789abcdef0' })
  const { Credentials: given } = await sts.send(command)
  sts.destroy()
  const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = given ?? {}
  return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken }
}

function allowed(Action: string[]) {
  return { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action, Resource: '*' }] }
}

function trusting(arn: string) {
  return {
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { AWS: arn }, Action: 'sts:AssumeRole' }],
  }
}
