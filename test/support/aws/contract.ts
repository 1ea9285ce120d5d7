/**
 * The contract of everything that replaces AWS, through the real clients: the emulator fulfills all of it, and a third-party
 * emulator is a second opinion. The cases only need two roles in two accounts with all permissions.
 */
import { ECRClient } from '@aws-sdk/client-ecr'
import { SSMClient } from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, type AssumeRoleCommandInput, STSClient } from '@aws-sdk/client-sts'
import { EXTERNAL_ID, REGION, type SdkCredentials } from './bed.ts'

export type ContractTarget = {
  url: string
  /** Of an operator in its own account. */
  credentials: SdkCredentials
  /** The time of the target. */
  now(): number
}

export type ContractCase = {
  /** A sentence without its subject, which is the target. */
  name: string
  run(bed: ContractBed): Promise<void>
}

export const ROLE_ARN = 'arn:aws:iam::222222222222:role/davit-writer'
export const OTHER_ROLE_ARN = 'arn:aws:iam::333333333333:role/davit-writer'

/** Clients, and a separate parameter path for each case. */
export class ContractBed {
  readonly target: ContractTarget
  readonly path: string
  readonly #clients = new Set<{ destroy(): void }>()

  constructor(target: ContractTarget, path: string) {
    this.target = target
    this.path = path
  }

  name(last: string): string {
    return `${this.path}/${last}`
  }

  sts(credentials = this.target.credentials): STSClient {
    return this.#keep(new STSClient(this.#config(credentials)))
  }

  ecr(credentials: SdkCredentials, region?: string): ECRClient {
    return this.#keep(new ECRClient(this.#config(credentials, region)))
  }

  /** A client with a session of the role. */
  async ssm(
    options: { region?: string; session?: Partial<AssumeRoleCommandInput> } = {},
  ): Promise<SSMClient> {
    return this.#keep(new SSMClient(this.#config(await this.assume(options.session), options.region)))
  }

  async assume(input: Partial<AssumeRoleCommandInput> = {}): Promise<SdkCredentials> {
    const { Credentials } = await this.sts().send(
      new AssumeRoleCommand({
        RoleArn: ROLE_ARN,
        RoleSessionName: 'davit-acme',
        ExternalId: EXTERNAL_ID,
        ...input,
      }),
    )
    const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = Credentials ?? {}
    return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken }
  }

  close(): void {
    for (const client of this.#clients) client.destroy()
  }

  #keep<Client extends { destroy(): void }>(client: Client): Client {
    this.#clients.add(client)
    return client
  }

  #config(credentials: SdkCredentials, region = REGION) {
    const { url, now } = this.target
    return { endpoint: url, region, credentials, maxAttempts: 1, systemClockOffset: now() - Date.now() }
  }
}

/** Runs a case with a path that no other case uses. */
export async function runCase(target: ContractTarget, { name, run }: ContractCase): Promise<void> {
  const bed = new ContractBed(target, `/contract/${name.replace(/[^a-z0-9]+/gi, '-').slice(0, 60)}`)
  try {
    await run(bed)
  } finally {
    bed.close()
  }
}
