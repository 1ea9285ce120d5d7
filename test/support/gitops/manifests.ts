/** The objects that an organization keeps in Git: one of every kind that people write. */
export const DELIVERED_TYPE = 'environment.started'

/** @param names suffix of each name, so that several managers have their own objects */
export function manifestsOf(options: { url: string; roleArn?: string; names?: string }): string[] {
  const { url, roleArn, names = '' } = options
  return [
    `apiVersion: davit.dev/v1alpha1
kind: EventType
metadata: { name: git.applied${names} }
spec: { description: A commit was applied., schema: { type: object } }`,
    `apiVersion: davit.dev/v1alpha1
kind: WebhookEndpoint
metadata: { name: billing${names}, labels: { team: billing }, annotations: { note: from Git } }
spec: { url: "${url}/billing${names}", eventTypes: [${DELIVERED_TYPE}], description: from Git }`,
    `apiVersion: davit.dev/v1alpha1
kind: WebhookEvent
metadata: { name: staging-started${names} }
spec: { type: ${DELIVERED_TYPE}, data: { environmentId: env_1, count: 3, ratio: 0.5, list: [1, null] } }`,
    `apiVersion: davit.dev/v1alpha1
kind: RegistryCredential
metadata: { name: ghcr${names} }
spec: { type: token, label: GitHub packages, registry: ghcr.io, username: bot, secretRef: { name: ghcr-handover } }`,
    `apiVersion: davit.dev/v1alpha1
kind: SecretsSettings
metadata: { name: default }
spec: { region: eu-west-1${roleArn === undefined ? '' : `, roleArn: "${roleArn}"`} }`,
    `apiVersion: davit.dev/v1alpha1
kind: BoxTemplate
metadata: { name: shop${names} }
spec: { services: [{ name: db, kind: catalog, image: "postgres:17" }] }`,
  ]
}
