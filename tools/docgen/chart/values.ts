/** The chart's values, from which values.yaml, values.schema.json and docs/values.md are made. */
import { z } from 'zod'
import { configValues } from './config-values.ts'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'
import { autoscaling, httpRoute, ingress, service, tls, workloadValues } from './workload-values.ts'

const image = group('The image of every pod, also of bakes.', {
  repository: text(
    '',
    'Where the image is, such as registry.example.com/davit. Required: no image is published yet, and docs/image.md says how to make yours.',
  ),
  tag: text('', 'The tag of the image; empty: the version of the chart.'),
  digest: text('', 'The digest of the image, `sha256:...`, which counts more than the tag.'),
  pullPolicy: value(
    z.enum(['Always', 'IfNotPresent', 'Never']),
    'IfNotPresent',
    'When nodes pull the image.',
  ),
  pullSecrets: names(
    [],
    'Secrets with logins to pull the image, for the pods of Davit. Bakes have those of their ServiceAccount.',
  ),
})

const crds = group('The CustomResourceDefinitions.', {
  install: yesOrNo(
    true,
    'Install the CustomResourceDefinitions, and bring them to this version at each upgrade.',
  ),
  keep: yesOrNo(
    true,
    'Keep the CustomResourceDefinitions, and with them all objects of organizations, when the release is uninstalled.',
  ),
})

const etcd = group('The store of the cluster that Davit is in.', {
  quotaBytes: value(
    z.int().min(256 * 1024 * 1024),
    2 * 1024 * 1024 * 1024,
    'The quota of etcd (`--quota-backend-bytes`), 2 GiB where nobody has set it. The limits of `config` may add up to 60 % of it; docs/capacity.md says how.',
  ),
})

const aws = group(
  'Who Davit is for AWS. It needs the right to assume the roles that organizations name, and no other.',
  {
    region: text('', 'The region of AWS that Davit itself is in.'),
    identity: value(
      z.enum(['none', 'irsa', 'pod-identity', 'web-identity']),
      'none',
      'Where the identity for AWS comes from. `irsa`: an annotation of the ServiceAccounts, which EKS reads. `pod-identity`: associations of EKS with the ServiceAccounts, which are made outside of the cluster. `web-identity`: a token that the chart itself mounts, for clusters that are no EKS and whose issuer AWS trusts.',
    ),
    roleArn: text('', 'The IAM role of the controller and of the REST API, with `irsa` and `web-identity`.'),
  },
)

const smtp = group('The mail server that takes the mails to owners; `config.smtpFrom` says from whom.', {
  existingSecret: text(
    '',
    'A Secret with the URL of the mail server, `smtp://user:password@host:port`; with it, `config.smtpFrom` is required. Empty: no mails.',
  ),
  key: text('url', 'The key of that URL in the Secret.'),
})

const extraCa = group('Certificate authorities that receivers and AWS may have besides the known ones.', {
  configMap: text(
    '',
    'A ConfigMap in the namespace of the release, with certificate authorities that receivers and AWS may have.',
  ),
  key: text('ca.crt', 'The key in that ConfigMap, with certificates in PEM form.'),
})

const bakes = group('Bakes of boxes.', {
  enabled: yesOrNo(
    true,
    'Bake the templates of organizations, with the image of the chart or `config.bakeImage`. Otherwise templates say that nothing is baked, and the controller has no right to Jobs and pods.',
  ),
})

const tenantRoles = group(
  'The ClusterRoles `davit-owner`, `davit-publisher` and `davit-viewer`, to be bound in organizations.',
  {
    install: yesOrNo(true, 'Make the ClusterRoles `davit-owner`, `davit-publisher` and `davit-viewer`.'),
    aggregate: yesOrNo(
      true,
      'Make `davit-owner` part of `admin`, and `davit-viewer` part of `view`. No part of `edit` either way.',
    ),
  },
)

const networkPolicy = group('NetworkPolicies: nothing goes in or out of the pods but what is needed.', {
  enabled: yesOrNo(true, 'Make the NetworkPolicies.'),
  apiServer: objects(
    [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }],
    'Where the Kubernetes API is, as peers. By default that is every address, also private ones, on `networkPolicy.apiServerPorts`: narrow it to the addresses of your API server.',
  ),
  apiServerPorts: value(z.array(z.int()), [443, 6443], 'Ports of the Kubernetes API.'),
  aws: objects(
    [],
    'Where AWS is, as peers, beside its public addresses: interface endpoints of a VPC have private ones, which the controller does not reach once `networkPolicy.apiServer` is narrowed. On port 443.',
  ),
  dns: objects([{ namespaceSelector: {} }], 'Where DNS is, as peers.'),
  apiFrom: objects(
    [],
    'Who may call the REST API, as peers. Empty: everybody whom the network lets through.',
  ),
  opsFrom: objects(
    [],
    'Who may read metrics and health beside the pods of this release, such as the namespace of Prometheus.',
  ),
  extraEgress: objects([], 'More rules for what goes out, such as to a proxy or a mail server inside.'),
})

const serviceMonitor = group('ServiceMonitors, for the Prometheus Operator.', {
  enabled: yesOrNo(false, 'Make a ServiceMonitor for each role.'),
  labels: strings(
    {},
    'Labels by which Prometheus finds the ServiceMonitors: with kube-prometheus-stack `release`, and the name of its release.',
  ),
  interval: text('30s', 'How often Prometheus asks for metrics.'),
})

const prometheusRule = group(
  'A PrometheusRule with the alerts that are in `files/alerts.yaml`; docs/monitoring.md tells of each.',
  {
    enabled: yesOrNo(false, 'Make a PrometheusRule with the alerts in `files/alerts.yaml`.'),
    labels: strings(
      {},
      'Labels by which Prometheus finds the PrometheusRule: with kube-prometheus-stack `release`, and the name of its release.',
    ),
    annotations: strings({}, 'Annotations of the PrometheusRule.'),
    alertLabels: strings({}, 'Labels of every alert beside its severity, such as the team to be told.'),
    disabled: names([], 'Alerts that the PrometheusRule does not have, such as `DavitOwnersNotTold`.'),
    runbooks: text(
      '',
      'Where your people read `docs/runbooks`, such as `https://git.example.com/davit/docs/runbooks`: what the annotation `runbook_url` begins with. Empty: alerts have no `runbook_url`.',
    ),
  },
)

const dashboards = group('ConfigMaps with the dashboards in `files/dashboards`, for Grafana 11 or newer.', {
  enabled: yesOrNo(false, 'Make ConfigMaps with the dashboards in `files/dashboards`.'),
  labels: strings({ grafana_dashboard: '1' }, "Labels by which Grafana's sidecar finds the dashboards."),
  annotations: strings(
    {},
    'Annotations of the dashboards, such as the `grafana_folder` that the sidecar puts them into.',
  ),
})

/** @param about returns the description of a setting of `config` */
export function chartValues(about: (variable: string) => string) {
  return z.strictObject({
    nameOverride: text('', 'Instead of `davit` in names.'),
    fullnameOverride: text('', 'What all names begin with.'),
    commonLabels: strings(
      {},
      'Labels of all objects and pods, instead of those that the chart gives them under the same name.',
    ),
    image,
    crds,
    config: configValues(about).meta({
      description:
        'Settings of the operator, each with the default of the program. docs/settings.md says when to change them.',
    }),
    organizations: names(
      [],
      'Organizations in which Davit takes hand-over Secrets and fills those of `spec.signingSecret`: it gets the right to Secrets there, and nowhere else. More may be bound outside of the chart.',
    ),
    etcd,
    aws,
    smtp,
    extraCa,
    bakes,
    controller: group(
      '`davit controller`: delivers webhooks, keeps secrets in accounts, starts bakes.',
      workloadValues(
        'the controller',
        CONTROLLER,
        ' The Jobs of an uninstall and the pod of `helm test` have it too.',
      ),
    ),
    api: group('`davit api`: the REST API.', {
      ...workloadValues('the REST API', API),
      autoscaling,
      service,
      tls,
      ingress,
      httpRoute,
    }),
    tenantRoles,
    admissionPolicies: group('ValidatingAdmissionPolicies that narrow what RBAC cannot.', {
      install: yesOrNo(true, 'Make the ValidatingAdmissionPolicies.'),
    }),
    cleanup: group('What is done when the release is uninstalled.', {
      enabled: yesOrNo(
        true,
        'At an uninstall, end the pods while they have their rights, and afterwards take the finalizers of Davit off credentials and settings, so that they and their namespaces can be deleted while no Davit runs: two Jobs, with the image of the chart.',
      ),
    }),
    networkPolicy,
    serviceMonitor,
    prometheusRule,
    dashboards,
    ipFamily: value(
      z.enum(['IPv4', 'IPv6']),
      'IPv4',
      'Which addresses the pods listen on; `IPv6` takes both.',
    ),
    podSecurityContext: object(
      {},
      'Fields of the security context of all pods of Davit, such as `fsGroup`, beside those that the chart sets, or instead of them.',
    ),
    revisionHistoryLimit: integer(3, [0, 100], 'Old ReplicaSets that are kept.'),
    global: object({}, 'For charts that have this one in them; not read.'),
  })
}

/** No CPU limit: a throttled role renews its Lease late. */
const CONTROLLER = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
const API = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
