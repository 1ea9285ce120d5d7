/** The two boxes of the playground: their one-time setup by an owner, and their templates. */

import { z } from 'zod'
import { type BoxTemplate, boxTemplate, boxTemplates } from '../../src/apis/box-template.ts'
import { persistentVolumeClaims, ROLE_ARN_ANNOTATION, serviceAccounts } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import {
  SECRETS_SETTINGS_NAME,
  secretsSettings,
  secretsSettingsResource,
} from '../../src/apis/secrets-settings.ts'
import type { ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import type { Account, IdentityKey } from '../../test-support/aws/account.ts'
import { requestApi } from '../control-plane/api-server.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import { ORGANIZATION } from '../organization.ts'

type Api = ResourceReader & ResourceWriter
type Access = ControlPlane['access']

export const WORKS = 'works'
export const WRONG_PASSWORD = 'wrong-password'
export const REPOSITORY = 'acme/api'
export const TAG = '1.0'

const SERVICE_ACCOUNT = 'box'
const CLAIM = 'boxes'
const AUDIENCE = 'sts.amazonaws.com'

/**
 * Creates the role of the boxes with the policy that Davit documents, binds it to their ServiceAccount as IRSA does, and creates
 * their volume.
 */
export async function setUpBoxes(api: Api, access: Access, account: Account): Promise<void> {
  const ref = { namespace: ORGANIZATION, name: SECRETS_SETTINGS_NAME }
  const { status } = secretsSettings.parse(await api.get(secretsSettingsResource, ref))
  const { arn, claim } = await trustCluster(access, account)
  const subject = `system:serviceaccount:${ORGANIZATION}:${SERVICE_ACCOUNT}`
  const role = account.addRole('davit-box', {
    trust: {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Federated: arn },
          Action: 'sts:AssumeRoleWithWebIdentity',
          Condition: { StringEquals: { [`${claim}:sub`]: subject, [`${claim}:aud`]: AUDIENCE } },
        },
      ],
    },
    policies: { 'read-secrets': JSON.parse(status?.readerPolicy ?? '') },
  })
  await api.create(serviceAccounts, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: {
      namespace: ORGANIZATION,
      name: SERVICE_ACCOUNT,
      annotations: { [ROLE_ARN_ANNOTATION]: role.arn },
    },
  })
  await api.create(persistentVolumeClaims, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace: ORGANIZATION, name: CLAIM },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  })
}

const discovery = z.object({ issuer: z.string() })
const jwks = z.object({ keys: z.array(z.looseObject({ kid: z.string() })) })

/** Makes the account trust tokens of the API server, with the public keys that the API server publishes. */
async function trustCluster(access: Access, account: Account): Promise<{ arn: string; claim: string }> {
  const read = async (path: string, accept?: string) =>
    (await requestApi(access, { method: 'GET', path, ...(accept ? { accept } : {}) })).body
  const { issuer } = discovery.parse(await read('/.well-known/openid-configuration'))
  const { keys } = jwks.parse(await read('/openid/v1/jwks', 'application/jwk-set+json'))
  const provider = account.addIdentityProvider(issuer, {
    audiences: [AUDIENCE],
    keys: keys as IdentityKey[],
  })
  return { arn: provider.arn, claim: issuer.replace('https://', '') }
}

/** Creates a box like an owner does with kubectl. @param host of the registry @param credential its id */
export async function makeBox(
  api: Api,
  name: string,
  { host, credential }: { host: string; credential: string },
): Promise<void> {
  const image = `${host}/${REPOSITORY}:${TAG}`
  await api.create(boxTemplates, {
    apiVersion: API_VERSION,
    kind: 'BoxTemplate',
    metadata: { namespace: ORGANIZATION, name },
    spec: {
      services: [{ name: 'api', kind: 'custom', image, registryCredentialId: credential }],
      instanceRole: { serviceAccountName: SERVICE_ACCOUNT },
      output: { persistentVolumeClaim: CLAIM },
      platform: 'linux/amd64',
    },
  })
}

/** All boxes of the organization, including those that the reader has made. */
export async function readBoxes(api: Api): Promise<BoxTemplate[]> {
  const { items } = await api.list(boxTemplates, { namespace: ORGANIZATION })
  return items.map((raw) => boxTemplate.parse(raw))
}
