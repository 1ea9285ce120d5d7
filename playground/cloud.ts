/** The cloud of the playground: an AWS emulator with an identity for Davit and an account for the organization. */

import { secrets } from '../src/apis/core-kinds.ts'
import { API_VERSION } from '../src/apis/meta.ts'
import { REGISTRY_SECRET_TYPE, registryCredentials } from '../src/apis/registry-credential.ts'
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsResource,
} from '../src/apis/secrets-settings.ts'
import type { ResourceReader, ResourceWriter } from '../src/kube/client.ts'
import type { Clock } from '../src/lib/time.ts'
import type { Account } from '../test-support/aws/account.ts'
import { startAwsEmulator } from '../test-support/aws/aws-emulator.ts'
import { ORGANIZATION } from './organization.ts'

export type PlaygroundCloud = {
  /** For the processes of Davit. */
  environment: Readonly<Record<string, string>>
  /** Creates the account of the organization, with a role made from the status of its SecretsSettings. */
  connect(api: ResourceReader & ResourceWriter): Promise<Account>
  stop(): Promise<void>
}

export const REGION = 'eu-west-1'
const OPERATOR_ACCOUNT = '111111111111'
export const ACCOUNT = '222222222222'
const CONNECT_LIMIT_MS = 30_000
const LOOK_EVERY_MS = 100

export async function startPlaygroundCloud(clock: Clock): Promise<PlaygroundCloud> {
  const aws = await startAwsEmulator({ clock })
  const operator = aws.accounts.add(OPERATOR_ACCOUNT)
  const { accessKeyId, secretAccessKey } = operator.addAccessKey(operator.addUser('davit', { policies: OWN }))
  return {
    environment: {
      AWS_ENDPOINT_URL: aws.url,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    },
    async connect(api) {
      const account = aws.accounts.add(ACCOUNT)
      await api.create(secretsSettingsResource, settings({ region: REGION }))
      const { status } = await settingsWhen(api, (now) => now.status?.trustPolicy !== undefined)
      const role = account.addRole('davit-secrets', {
        trust: JSON.parse(status?.trustPolicy ?? ''),
        policies: { 'write-secrets': JSON.parse(status?.writerPolicy ?? '') },
      })
      await api.patch(secretsSettingsResource, REF, { spec: { roleArn: role.arn } })
      await settingsWhen(api, isReady)
      return account
    },
    stop: () => aws.stop(),
  }
}

/** Permissions of Davit's own identity. */
const OWN = {
  own: {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Action: ['sts:AssumeRole', 'sts:TagSession'],
        Resource: 'arn:aws:iam::*:role/davit-secrets',
      },
    ],
  },
}

const REF = { namespace: ORGANIZATION, name: SECRETS_SETTINGS_NAME }

function settings(spec: { region: string }) {
  return { apiVersion: API_VERSION, kind: 'SecretsSettings', metadata: { ...REF }, spec }
}

function isReady({ metadata, status }: SecretsSettings): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  return status?.observedGeneration === metadata.generation && ready?.status === 'True'
}

async function settingsWhen(
  api: ResourceReader,
  is: (settings: SecretsSettings) => boolean,
): Promise<SecretsSettings> {
  const deadline = performance.now() + CONNECT_LIMIT_MS
  for (;;) {
    const now = secretsSettings.parse(await api.get(secretsSettingsResource, REF))
    if (is(now)) return now
    if (performance.now() > deadline)
      throw new Error(`failed to connect the account: ${JSON.stringify(now.status?.conditions)}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
}

/** Creates an input Secret and the credential that refers to it, like an owner does with kubectl. */
export async function createCredential(api: ResourceWriter, name: string, value: string): Promise<void> {
  const inputSecret = `${name}-handover`
  await api.create(secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: ORGANIZATION, name: inputSecret },
    type: REGISTRY_SECRET_TYPE,
    stringData: { secret: value },
  })
  await api.create(registryCredentials, {
    apiVersion: API_VERSION,
    kind: 'RegistryCredential',
    metadata: { namespace: ORGANIZATION, name },
    spec: {
      type: 'token',
      label: 'GitHub packages',
      registry: 'ghcr.io',
      username: 'acme-bot',
      secretRef: { name: inputSecret },
    },
  })
}
