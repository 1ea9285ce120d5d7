/** Templates whose bakes fail at once, since the host of their image is not that of their credential. */

import { boxTemplateKind, boxTemplates } from '../../../src/apis/box-template.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import type { ResourceWriter } from '../../../src/kube/client.ts'

const COUNT = 4

export async function makeTemplates(api: ResourceWriter, namespace: string): Promise<void> {
  for (let number = 1; number <= COUNT; number += 1) {
    await api.create(boxTemplates, {
      apiVersion: API_VERSION,
      kind: boxTemplateKind.kind,
      metadata: { namespace, name: `mismatch-${number}` },
      spec: {
        services: [
          { name: 'api', kind: 'custom', image: 'ghcr.io/acme/api:1.4', registryCredentialId: 'rc_ecr' },
        ],
        instanceRole: { serviceAccountName: 'box' },
      },
    })
  }
}
