/** The key of the installation: a Secret in the operator's namespace, created once and the same for every replica. */
import { secret, secrets } from '../../apis/core-kinds.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { Random } from '../../lib/clock.ts'

export const INSTALLATION_KEY_NAME = 'davit-installation-key'
const KEY_BYTES = 32

export type InstallationKeyOptions = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  random: Random
}

/**
 * Reads the key, or creates it; of several replicas that create it at the same time the first wins. Each use derives its own key
 * (`deriveKey` in lib/text.ts).
 * @throws ApiError; Error if the Secret exists and holds no key
 */
export async function installationKey(options: InstallationKeyOptions): Promise<Uint8Array> {
  return (await readKey(options)) ?? (await createKey(options))
}

async function createKey(options: InstallationKeyOptions): Promise<Uint8Array> {
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

async function readKey({ resources, namespace }: InstallationKeyOptions): Promise<Uint8Array | undefined> {
  const raw = await findObject(resources, secrets, { namespace, name: INSTALLATION_KEY_NAME })
  if (!raw) return undefined
  const key = Buffer.from(secret.parse(raw).data?.key ?? '', 'base64')
  // Anyone could compute the hashes of an empty key.
  if (key.length >= KEY_BYTES) return key
  throw new Error(`the Secret ${namespace}/${INSTALLATION_KEY_NAME} holds no key of ${KEY_BYTES} bytes`)
}
