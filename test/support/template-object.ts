import { boxTemplateKind } from '../../src/apis/box-template.ts'
import { API_VERSION } from '../../src/apis/meta.ts'

/** A BoxTemplate with one service. */
export function templateObject(namespace: string, name: string) {
  const services = [{ name: 'web', kind: 'catalog', image: 'docker.io/library/nginx:1.29' }]
  return {
    apiVersion: API_VERSION,
    kind: boxTemplateKind.kind,
    metadata: { namespace, name },
    spec: { services },
  }
}
