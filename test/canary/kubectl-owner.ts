/** An owner who saves secrets with kubectl: a Secret that hands the value over, and a credential that names it. */
import { secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import {
  REGISTRY_SECRET_KEY,
  REGISTRY_SECRET_TYPE,
  RETAIN_ANNOTATION,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../src/kube/client.ts'

/** Where kubectl keeps what was applied, the value included. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

export type Handover = { organization: string; name: string; value: string }
export type HandoverShape = { retained?: boolean; applied?: boolean; type?: string }

const TRIES = 10

export class KubectlOwner {
  readonly #api: ResourceReader & ResourceWriter

  constructor(api: ResourceReader & ResourceWriter) {
    this.#api = api
  }

  /** Makes the Secret, or writes over the one that is still there. */
  async handOver({ organization, name, value }: Handover, shape: HandoverShape = {}): Promise<void> {
    const ref = { namespace: organization, name }
    const data = { [REGISTRY_SECRET_KEY]: Buffer.from(value).toString('base64') }
    const object = { apiVersion: 'v1', kind: 'Secret', type: shape.type ?? REGISTRY_SECRET_TYPE, data }
    const annotations = {
      ...(shape.retained ? { [RETAIN_ANNOTATION]: 'true' } : {}),
      ...(shape.applied ? { [LAST_APPLIED]: JSON.stringify({ ...object, metadata: ref }) } : {}),
    }
    const write = [
      () => this.#api.create(secrets, { ...object, metadata: { ...ref, annotations } }),
      () => this.#api.patch(secrets, ref, { data, metadata: { annotations } }),
    ]
    for (let tries = 0; ; tries += 1) {
      try {
        await write[tries % 2]?.()
        return
      } catch (error) {
        // Davit deletes it meanwhile.
        if (!isApiError(error, 'AlreadyExists', 'NotFound') || tries === TRIES) throw error
      }
    }
  }

  async make(organization: string, name: string): Promise<void> {
    await this.#api.create(registryCredentials, {
      apiVersion: API_VERSION,
      kind: registryCredentialKind.kind,
      metadata: { namespace: organization, name },
      spec: { type: 'token', label: name, registry: 'ghcr.io', username: 'bot', secretRef: { name } },
    })
  }

  async remove(organization: string, name: string): Promise<void> {
    await this.#api.delete(registryCredentials, { namespace: organization, name })
  }

  /** By name, the version that is stored; undefined where none is. */
  async versions(organization: string): Promise<Map<string, number | undefined>> {
    const { items } = await this.#api.list(registryCredentials, { namespace: organization, limit: 5000 })
    return new Map(
      items.map((item) => {
        const { metadata, status } = registryCredential.parse(item)
        return [metadata.name, status?.parameter?.version]
      }),
    )
  }
}
