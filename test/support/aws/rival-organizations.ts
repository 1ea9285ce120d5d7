/**
 * Organizations with confusingly similar names, in shared accounts and with shared roles, and some that try to get the secrets of
 * others. Davit runs as installed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { secrets } from '../../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import {
  REGISTRY_SECRET_TYPE,
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../../../src/apis/registry-credential.ts'
import type { SecretsSettings } from '../../../src/apis/secrets-settings.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import { type Installation, startInstallation } from '../installation.ts'
import {
  type Connecting,
  connectOrganization,
  makeRole,
  nameRole,
  settingsWhen,
} from './connect-organization.ts'
import { REGION, TestAws } from './organization-account.ts'

const LONG = 'a'.repeat(62)
/** Each has its own role in one account. */
export const WITH_OWN_ROLES = ['acme', 'acme-x', 'ac', `${LONG}b`]
/** All share one role of that account. */
export const WITH_SHARED_ROLE = ['rc-x', 'davit-probe', `${LONG}c`]
export const ORGANIZATIONS = [...WITH_OWN_ROLES, ...WITH_SHARED_ROLE]
export const CREDENTIALS = ['ghcr', 'rc-x', 'acme']
const LIMIT_MS = 30_000
const POLL_MS = 50

export class Rivals {
  readonly davit: Installation
  readonly aws: TestAws
  readonly account: Account
  readonly roles = new Map<string, Role>()
  /** Values that were saved by REST, by the name of the parameter. */
  readonly savedByRest = new Map<string, string>()
  readonly #keys = new Map<string, string>()
  declare baseUrl: string

  private constructor(davit: Installation, aws: TestAws) {
    this.davit = davit
    this.aws = aws
    this.account = aws.emulator.accounts.add('222222222222')
  }

  static async start(): Promise<Rivals> {
    const aws = await TestAws.start()
    const davit = await startInstallation()
    const rivals = new Rivals(davit, aws)
    const env = { ...aws.environment(), DAVIT_CLOUD_WRITES_PER_SECOND: '1000' }
    const controller = await davit.startController(env)
    const server = await davit.startServer({ settings: env })
    rivals.baseUrl = server.baseUrl
    await Promise.all([controller.untilReady(), server.process.untilReady()])
    for (const organization of ORGANIZATIONS) await rivals.found(organization)
    for (const organization of WITH_OWN_ROLES)
      rivals.roles.set(organization, await connectOrganization(rivals.connecting(organization)))
    await rivals.#share()
    for (const organization of ORGANIZATIONS)
      for (const name of CREDENTIALS) await rivals.save(organization, name, `${organization} ${name}`)
    for (const organization of ORGANIZATIONS) {
      const { status, id } = await rivals.saveByRest(organization, `${organization} by REST`)
      if (status !== 201) throw new Error(`saving by REST answers ${status}`)
      rivals.savedByRest.set(`/davit/${organization}/${id}`, `${organization} by REST`)
    }
    return rivals
  }

  async stop(): Promise<void> {
    await this.davit.stop()
    await this.aws.stop()
  }

  connecting(organization: string): Connecting {
    const { account } = this
    return {
      api: this.davit.api,
      organization,
      region: REGION,
      account,
      role: `davit.${organization.slice(-30)}`,
      limitMs: LIMIT_MS,
    }
  }

  nameOf(organization: string, credential: string): string {
    return `/davit/${organization}/rc_${credential}`
  }

  /** Creates an organization with an owner who has an API token. */
  async found(organization: string): Promise<void> {
    await this.davit.makeOrganization(organization)
    const owner = await this.davit.makeAccount(organization, 'owner', 'davit-owner')
    this.#keys.set(organization, await this.davit.makeKey(owner))
  }

  /** @returns also the answer to a rejected request */
  async saveByRest(
    organization: string,
    secret: string,
  ): Promise<{ status: number; id: string; text: string }> {
    const body = { type: 'token', label: 'Images of acme', registry: 'ghcr.io', username: 'acme', secret }
    const limit = performance.now() + LIMIT_MS
    for (;;) {
      const answer = await fetch(`${this.baseUrl}/organizations/${organization}/registry-credentials`, {
        method: 'POST',
        headers: {
          authorization: this.#keys.get(organization) ?? '',
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
      })
      const { status } = answer
      const text = await answer.text()
      // The API server needs a moment to apply a new role.
      if ((status !== 403 && status !== 404) || performance.now() > limit)
        return { status, text, id: (JSON.parse(text) as { id?: string }).id ?? '' }
      await sleep(POLL_MS * 4)
    }
  }

  /** Saves a credential that differs from those of other organizations only in its value. */
  async save(organization: string, name: string, value: string): Promise<void> {
    await this.handOver(organization, name, value)
    await this.makeCredential(organization, name)
    await this.credentialWhen(organization, name, ({ status }) => status?.parameter !== undefined)
  }

  async handOver(organization: string, name: string, value: string): Promise<void> {
    await this.davit.api.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: organization, name },
      type: REGISTRY_SECRET_TYPE,
      data: { secret: Buffer.from(value).toString('base64') },
    })
  }

  async makeCredential(organization: string, name: string): Promise<void> {
    await this.davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: registryCredentialKind.kind,
      metadata: { namespace: organization, name },
      spec: {
        type: 'token',
        label: 'Images of acme',
        registry: 'ghcr.io',
        username: 'acme',
        secretRef: { name },
      },
    })
  }

  async credentialWhen(
    organization: string,
    name: string,
    is: (credential: RegistryCredential) => boolean,
  ): Promise<RegistryCredential> {
    const limit = performance.now() + LIMIT_MS
    const ref = { namespace: organization, name }
    for (;;) {
      const credential = registryCredential.parse(await this.davit.api.get(registryCredentials, ref))
      if (is(credential)) return credential
      if (performance.now() > limit)
        throw new Error(`${organization}/${name} stays ${JSON.stringify(credential.status)}`)
      await sleep(POLL_MS)
    }
  }

  settingsWhen(organization: string, is: (settings: SecretsSettings) => boolean): Promise<SecretsSettings> {
    return settingsWhen(this.connecting(organization), is)
  }

  /** Creates one role that trusts Davit on behalf of all of them, and may write for all of them. */
  async #share(): Promise<void> {
    const made: Role[] = []
    const ids: string[] = []
    for (const organization of WITH_SHARED_ROLE) {
      made.push(await makeRole(this.connecting(organization)))
      const { status } = await this.settingsWhen(organization, () => true)
      ids.push(status?.externalId ?? '')
    }
    const [role] = made
    if (!role) throw new Error('there is no role')
    const { operator } = this.aws
    this.account.changeRole(role, { trust: trusting(operator, ids), policies: { writer: WRITE_ALL } })
    for (const organization of WITH_SHARED_ROLE) {
      await nameRole(this.connecting(organization), role)
      await this.settingsWhen(organization, isReady)
      this.roles.set(organization, role)
    }
  }
}

export function isReady({ metadata, status }: SecretsSettings): boolean {
  const isSo = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return isSo === true && status?.observedGeneration === metadata.generation
}

function trusting(operator: string, externalIds: readonly string[]): Record<string, unknown> {
  const Principal = { AWS: operator }
  const Condition = { StringEquals: { 'sts:ExternalId': externalIds } }
  return {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal, Action: 'sts:AssumeRole', Condition },
      { Effect: 'Allow', Principal, Action: 'sts:TagSession' },
    ],
  }
}

const WRITE_ALL = {
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Action: ['ssm:*', 'kms:*'], Resource: '*' },
    { Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
  ],
}
export const ALLOW_ALL = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }],
}
