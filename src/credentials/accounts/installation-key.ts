import { secret, secrets } from '../../apis/core-kinds.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Random } from '../../lib/clock.ts'
import { externalId, installationId, type Owner } from '../aws/names.ts'

/** The key of the installation: a Secret in the operator's namespace, made once and the same for every replica. */

export const INSTALLATION_KEY_NAME = 'davit-installation-key'
const KEY_BYTES = 32

export type InstallationKeyOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  random: Random
}

/**
 * Reads it, or makes it; of several replicas that make it at a time the first wins. Hashes for one purpose are made
 * under `keyFor` of domain/key-hash.
 * @throws ApiError; Error when the Secret is there and holds no key
 */
export async function installationKey(options: InstallationKeyOptions): Promise<Uint8Array> {
  return (await readKey(options)) ?? (await makeKey(options))
}

async function makeKey(options: InstallationKeyOptions): Promise<Uint8Array> {
  const { resources, namespace, random } = options
  const key = random.bytes(KEY_BYTES)
  try {
    await resources.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: INSTALLATION_KEY_NAME },
      type: 'Opaque',
      data: { key: Buffer.from(key).toString('base64') },
    })
    return key
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
  const held = await readKey(options)
  if (!held) throw new Error(`the Secret ${namespace}/${INSTALLATION_KEY_NAME} comes and goes`)
  return held
}

async function readKey(options: InstallationKeyOptions): Promise<Uint8Array | undefined> {
  const { resources, namespace } = options
  const raw = await findObject(resources, secrets, { namespace, name: INSTALLATION_KEY_NAME })
  if (!raw) return undefined
  const { data } = secret.parse(raw)
  const key = Buffer.from(data?.key ?? '', 'base64')
  // An empty key would make every hash one that anybody can compute.
  if (key.length >= KEY_BYTES) return key
  throw new Error(`the Secret ${namespace}/${INSTALLATION_KEY_NAME} holds no key of ${KEY_BYTES} bytes`)
}

/** As whom this installation of Davit meets the accounts of organizations: the same in every process of it. */

export type AccountIdentity = {
  /** What every parameter is under, such as `/davit`. */
  prefix: string
  /** Of an organization, by the UID of its namespace. */
  externalIdOf(organizationUid: string): string
  ownerOf(organizationUid: string): Owner
}

/** @param installationKey the key of the installation @param prefix the operator's setting */
export function accountIdentity(installationKey: Uint8Array, prefix: string): AccountIdentity {
  const installation = installationId(installationKey)
  return {
    prefix,
    externalIdOf: (organizationUid) => externalId(installationKey, organizationUid),
    ownerOf: (organizationUid) => ({ installation, organizationUid }),
  }
}
