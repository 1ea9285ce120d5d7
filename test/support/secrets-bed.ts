/** A controller with an AWS emulator, and an owner's use of kubectl. */
import { secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import {
  REGISTRY_SECRET_TYPE,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import {
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../../src/apis/secrets-settings.ts'
import { isApiError } from '../../src/kube/client.ts'
import type { Account, Role } from '../../test-support/aws/account.ts'
import { REGION, TestAws } from './aws/organization-account.ts'
import { type DavitOptions, startDavit, type TestDavit } from './davit.ts'
import { until } from './until.ts'

export const ACCOUNT = '222222222222'

export class SecretsBed {
  readonly aws: TestAws
  readonly davit: TestDavit

  private constructor(aws: TestAws, davit: TestDavit) {
    this.aws = aws
    this.davit = davit
  }

  static async start(topic: string, options: DavitOptions = {}): Promise<SecretsBed> {
    const aws = await TestAws.start()
    const env = { AWS_ENDPOINT_URL: aws.emulator.url, ...options.env }
    return new SecretsBed(aws, await startDavit(topic, { ...options, env }))
  }

  async stop(): Promise<void> {
    await this.davit.stop()
    await this.aws.stop()
  }

  get organization(): string {
    return this.davit.organization
  }

  /**
   * Connects the account like an owner: settings without a role, then the role with the policies of the status, then the settings
   * with the role.
   */
  async connect(id = ACCOUNT): Promise<{ account: Account; role: Role }> {
    await this.settings({ region: REGION })
    const { status } = await this.settingsWhen(({ status }) => status?.writerPolicy !== undefined)
    const made = this.aws.account(id, {
      trustPolicy: status?.trustPolicy ?? '',
      writerPolicy: status?.writerPolicy ?? '',
    })
    await this.settings({ region: REGION, roleArn: made.role.arn })
    await this.settingsWhen((settings) => isReady(settings))
    return made
  }

  /** Creates or changes the settings. */
  async settings(spec: Record<string, unknown>): Promise<void> {
    const ref = { namespace: this.organization, name: 'default' }
    const object = { apiVersion: API_VERSION, kind: 'SecretsSettings', metadata: ref, spec }
    try {
      await this.davit.api.create(secretsSettingsResource, object)
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) throw error
      await this.davit.api.patch(secretsSettingsResource, ref, { spec })
    }
  }

  async credential(name: string, spec: Record<string, unknown> = {}): Promise<void> {
    await this.davit.api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace: this.organization, name },
      spec: { type: 'token', label: name, registry: 'ghcr.io', username: 'bot', ...spec },
    })
  }

  async handOver(name: string, value: string, more: { type?: string; retain?: boolean } = {}): Promise<void> {
    const annotations = more.retain ? { 'davit.dev/retain': 'true' } : {}
    await this.davit.api.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: this.organization, name, annotations },
      type: more.type ?? REGISTRY_SECRET_TYPE,
      data: { secret: Buffer.from(value).toString('base64') },
    })
  }

  async hasSecret(name: string): Promise<boolean> {
    try {
      await this.davit.api.get(secrets, { namespace: this.organization, name })
      return true
    } catch (error) {
      if (isApiError(error, 'NotFound')) return false
      throw error
    }
  }

  async settingsWhen(is: (settings: SecretsSettings) => boolean): Promise<SecretsSettings> {
    const ref = { namespace: this.organization, name: 'default' }
    let last: unknown
    return await until(
      async () => {
        const settings = secretsSettings.parse(await this.davit.api.get(secretsSettingsResource, ref))
        last = settings.status?.conditions
        return is(settings) ? settings : undefined
      },
      () => `conditions: ${JSON.stringify(last)}`,
    )
  }

  async credentialWhen(
    name: string,
    is: (credential: RegistryCredential) => boolean,
  ): Promise<RegistryCredential> {
    const ref = { namespace: this.organization, name }
    let last: unknown
    return await until(
      async () => {
        const credential = registryCredential.parse(await this.davit.api.get(registryCredentials, ref))
        last = credential.status
        return is(credential) ? credential : undefined
      },
      () => `status: ${JSON.stringify(last)}`,
    )
  }

  async gone(name: string): Promise<void> {
    const ref = { namespace: this.organization, name }
    await until(
      async () => {
        try {
          await this.davit.api.get(registryCredentials, ref)
          return undefined
        } catch (error) {
          return isApiError(error, 'NotFound') || undefined
        }
      },
      () => `${name} is still there`,
    )
  }
}

export function isReady(object: RegistryCredential | SecretsSettings): boolean {
  const { metadata, status } = object
  const isSo = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return status?.observedGeneration === metadata.generation && isSo === true
}

export function reasonOf(object: RegistryCredential | SecretsSettings, type: string): string | undefined {
  return object.status?.conditions?.find((condition) => condition.type === type)?.reason
}
