/**
 * Whether the spec of an object is somebody else's: applied from Git, by Helm, or with `kubectl apply`. What REST
 * wrote there would be undone by the next apply. One `kubectl edit` makes nobody a manager (settled, "REST shapes").
 */

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'
const HELM_RELEASE = 'meta.helm.sh/release-name'
const ARGO_TRACKING = 'argocd.argoproj.io/tracking-id'
const ARGO_INSTANCE = 'argocd.argoproj.io/instance'

/** Who manages the spec, for people; undefined where REST may change it. @param metadata as the API server sent it */
export function managedBy(metadata: Readonly<Record<string, unknown>>): string | undefined {
  const annotations = isRecord(metadata.annotations) ? metadata.annotations : {}
  const labels = isRecord(metadata.labels) ? metadata.labels : {}
  const applied = applierOf(metadata.managedFields)
  if (applied !== undefined) return applied
  if (HELM_RELEASE in annotations || labels['app.kubernetes.io/managed-by'] === 'Helm') return 'Helm'
  if (ARGO_TRACKING in annotations || ARGO_INSTANCE in labels) return 'Argo CD'
  return LAST_APPLIED in annotations ? 'kubectl apply' : undefined
}

/** The manager of a server-side apply that has fields of the spec. */
function applierOf(managedFields: unknown): string | undefined {
  if (!Array.isArray(managedFields)) return undefined
  for (const entry of managedFields as readonly unknown[]) {
    if (!isRecord(entry) || entry.operation !== 'Apply' || !isRecord(entry.fieldsV1)) continue
    if ('f:spec' in entry.fieldsV1 && !entry.subresource)
      return String(entry.manager ?? 'a manager').slice(0, 128)
  }
  return undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
