/**
 * Turns the manifests of config/ into templates of the chart: the same objects, with the names and the namespace of the release.
 * The plain files are the source, since they can be read, applied and tested without Helm.
 */
import { type Document, isMap, parseAllDocuments } from 'yaml'

/** Texts of the manifests and their replacements in the templates, longer ones first. */
const NAMES: readonly (readonly [plain: string, template: string])[] = [
  [
    'system:serviceaccount:davit-system:davit-api',
    'system:serviceaccount:{{ .Release.Namespace }}:{{ include "davit.api.serviceAccount" . }}',
  ],
  [
    'system:serviceaccount:davit-system:davit-controller',
    'system:serviceaccount:{{ .Release.Namespace }}:{{ include "davit.controller.serviceAccount" . }}',
  ],
  ['davit-system', '{{ .Release.Namespace }}'],
]

/** Variables of policies with settings of the installation, and the templates that know them. CEL accepts JSON values. */
const KNOWN: Readonly<Record<string, string>> = {
  repository: '{{ include "davit.bakeRepository" . | toJson | quote }}',
  endpoints: '{{ include "davit.awsEndpoints" . | quote }}',
  resources: '{{ include "davit.bakes.resources" . | quote }}',
  authorities: '{{ include "davit.bakeCa" . | toJson | quote }}',
  pullSecrets: '{{ include "davit.bakes.pullSecrets" . | quote }}',
  securityContext: '{{ include "davit.cel" (include "davit.bakes.securityContext" . | fromJson) | quote }}',
  nodeSelector: '{{ include "davit.cel" .Values.bakes.nodeSelector | quote }}',
  tolerations: '{{ include "davit.cel" .Values.bakes.tolerations | quote }}',
  affinity: '{{ include "davit.cel" .Values.bakes.affinity | quote }}',
  annotations: '{{ include "davit.cel" .Values.bakes.podAnnotations | quote }}',
  priorityClass: '{{ .Values.bakes.priorityClassName | toJson | quote }}',
}

/** Objects of the operator itself, by their name in the manifests. */
const OWN: Readonly<Record<string, string>> = {
  'davit-api': '{{ include "davit.api.name" . }}',
  'davit-controller': '{{ include "davit.controller.name" . }}',
  'davit-controller-bakes': '{{ include "davit.controller.name" . }}-bakes',
}

const ACCOUNTS: Readonly<Record<string, string>> = {
  'davit-api': '{{ include "davit.api.serviceAccount" . }}',
  'davit-controller': '{{ include "davit.controller.serviceAccount" . }}',
}

const STYLE = { lineWidth: 0, flowCollectionPadding: false } as const

const LABELS = 'davit-labels'
const AGGREGATION = 'rbac.authorization.k8s.io/aggregate-to-'

/** @param text of one file; its ServiceAccounts are left out, since the chart has values for them */
export function templated(text: string): string {
  const documents = parseAllDocuments(text).filter((document) => document.get('kind') !== 'ServiceAccount')
  for (const document of documents) rename(document)
  const plain = documents
    .map((document) =>
      document
        .toString(STYLE)
        .replace(/^---\n/, '')
        .trim(),
    )
    .join('\n---\n')
  return withLabels(withNames(withBakes(withBakeCa(plain))))
}

function rename(document: Document): void {
  const name = String(document.getIn(['metadata', 'name']))
  const renamed = OWN[name]
  if (renamed) document.setIn(['metadata', 'name'], renamed)
  const role = OWN[String(document.getIn(['roleRef', 'name']))]
  if (role) document.setIn(['roleRef', 'name'], role)
  const account = ACCOUNTS[String(document.getIn(['subjects', 0, 'name']))]
  if (account) document.setIn(['subjects', 0, 'name'], account)
  const metadata = document.get('metadata')
  if (isMap(metadata)) document.setIn(['metadata', 'labels', LABELS], 'here')
}

/** Quoted, because a namespace may look like a number. */
function withNames(text: string): string {
  let named = text
  for (const [plain, template] of NAMES) named = named.replaceAll(plain, template)
  for (const [variable, template] of Object.entries(KNOWN))
    named = named.replace(new RegExp(`(- name: ${variable}\\n +expression: ).*`), `$1${template}`)
  return named.replaceAll(
    'namespace: {{ .Release.Namespace }}',
    'namespace: {{ .Release.Namespace | quote }}',
  )
}

/** A value decides whether roles are aggregated to others. */
function withLabels(text: string): string {
  const lines = text.split('\n').flatMap((line) => {
    if (line.trim() === `${LABELS}: here`) return ['    {{- include "davit.labels" . | nindent 4 }}']
    if (line.includes(AGGREGATION))
      return ['    {{- if .Values.tenantRoles.aggregate }}', line, '    {{- end }}']
    return [line]
  })
  return lines.join('\n')
}

/** Wraps the rules that only bakes need: all rules of their role from this one on. */
function withBakes(text: string): string {
  const rules = /( {2}# Reads the objects that a template references[^\n]*\n[\s\S]*?)(?=---\n)/
  return text.replace(rules, '  {{- if .Values.bakes.enabled }}\n$1  {{- end }}\n')
}

/** The only organization ConfigMap that the controller reads has the name in the settings, or is absent. */
function withBakeCa(text: string): string {
  const rule =
    /( {2}# The certificate authorities that bakes trust[^\n]*\n {2}- apiGroups: \[\s*""\s*\]\n(?: {4}[^\n]*\n)*?)(?= {2}- )/
  return text.replace(rule, (found: string) => {
    const named = found
      .replace('davit-bake-ca', '{{ . }}')
      .replace(/ {2}#[^\n]*\n/, '  # The certificate authorities that bakes trust.\n')
    return `  {{- with include "davit.bakeCa" . }}\n${named}  {{- end }}\n`
  })
}
