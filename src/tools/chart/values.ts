/** The chart's values: values.yaml, values.schema.json and docs/values.md are made of this. */
import { z } from 'zod'
import { configValues } from './config-values.ts'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'
import { autoscaling, httpRoute, ingress, service, tls, workloadValues } from './workload-values.ts'

const image = group('The image of every pod, also of bakes.', {
  repository: text(
    '',
    'Where it is, such as registry.example.com/davit. Required: no image is published yet, and docs/image.md says how to make yours.',
  ),
  tag: text('', 'Its tag; empty: the version of the chart.'),
  digest: text('', 'Its digest, `sha256:...`, which counts more than the tag.'),
  pullPolicy: value(z.enum(['Always', 'IfNotPresent', 'Never']), 'IfNotPresent', 'When nodes pull it.'),
  pullSecrets: names(
    [],
    'Secrets with logins, for the pods of Davit. Bakes have those of their ServiceAccount.',
  ),
})

const crds = group('The CustomResourceDefinitions.', {
  install: yesOrNo(true, 'Install them, and bring them to this version at each upgrade.'),
  keep: yesOrNo(
    true,
    'Keep them, and with them all objects of organizations, when the release is uninstalled.',
  ),
})

const aws = group(
  'Who Davit is for AWS. It needs the right to assume the roles that organizations name, and no other.',
  {
    region: text('', 'The region of Davit itself.'),
    identity: value(
      z.enum(['none', 'irsa', 'pod-identity', 'web-identity']),
      'none',
      'Where the identity comes from. `irsa`: an annotation of the ServiceAccounts, which EKS reads. `pod-identity`: associations of EKS with the ServiceAccounts, which are made outside of the cluster. `web-identity`: a token that the chart itself mounts, for clusters that are no EKS and whose issuer AWS trusts.',
    ),
    roleArn: text('', 'The IAM role of both roles, with `irsa` and `web-identity`.'),
  },
)

const smtp = group('The mail server that takes the mails to owners; `config.smtpFrom` says from whom.', {
  existingSecret: text('', 'A Secret with its URL, `smtp://user:password@host:port`. Empty: no mails.'),
  key: text('url', 'The key in it.'),
})

const extraCa = group('Certificate authorities that receivers and AWS may have besides the known ones.', {
  configMap: text('', 'A ConfigMap in the namespace of the release.'),
  key: text('ca.crt', 'The key in it, with certificates in PEM form.'),
})

const bakes = group('Bakes of boxes.', {
  enabled: yesOrNo(
    true,
    'Bake, with the image of the chart or `config.bakeImage`. Otherwise templates say that nothing is baked.',
  ),
})

const tenantRoles = group(
  'The ClusterRoles `davit-owner`, `davit-publisher` and `davit-viewer`, to be bound in organizations.',
  {
    install: yesOrNo(true, 'Make them.'),
    aggregate: yesOrNo(
      true,
      'Make `davit-owner` part of `admin`, and `davit-viewer` part of `view`. No part of `edit` either way.',
    ),
  },
)

const networkPolicy = group('NetworkPolicies: nothing goes in or out of the pods but what is needed.', {
  enabled: yesOrNo(true, 'Make them.'),
  apiServer: objects(
    [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }],
    'Where the Kubernetes API is, as peers; narrow it to its addresses.',
  ),
  apiServerPorts: value(z.array(z.int()), [443, 6443], 'Its ports.'),
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
  enabled: yesOrNo(false, 'Make one for each role.'),
  labels: strings(
    {},
    'Labels by which Prometheus finds them: with kube-prometheus-stack `release`, and the name of its release.',
  ),
  interval: text('30s', 'How often it asks.'),
})

const prometheusRule = group(
  'A PrometheusRule with the alerts that are in `files/alerts.yaml`; docs/monitoring.md tells of each.',
  {
    enabled: yesOrNo(false, 'Make it.'),
    labels: strings(
      {},
      'Labels by which Prometheus finds it: with kube-prometheus-stack `release`, and the name of its release.',
    ),
    annotations: strings({}, 'Annotations of it.'),
    alertLabels: strings({}, 'Labels of every alert beside its severity, such as the team to be told.'),
    disabled: names([], 'Alerts that it does not have, such as `DavitOwnersNotTold`.'),
    runbooks: text(
      '',
      'Where your people read `docs/runbooks`, such as `https://git.example.com/davit/docs/runbooks`: what the annotation `runbook_url` begins with. Empty: the path in the repository.',
    ),
  },
)

const dashboards = group('ConfigMaps with the dashboards in `files/dashboards`, for Grafana 11 or newer.', {
  enabled: yesOrNo(false, 'Make them.'),
  labels: strings({ grafana_dashboard: '1' }, "Labels by which Grafana's sidecar finds them."),
  annotations: strings(
    {},
    'Annotations of them, such as the `grafana_folder` that the sidecar puts them into.',
  ),
})

/** @param about what a setting of `config` does */
export function chartValues(about: (variable: string) => string) {
  return z.strictObject({
    nameOverride: text('', 'Instead of `davit` in names.'),
    fullnameOverride: text('', 'What all names begin with.'),
    commonLabels: strings({}, 'Labels of all objects.'),
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
    aws,
    smtp,
    extraCa,
    bakes,
    controller: group(
      '`davit controller`: delivers webhooks, keeps secrets in accounts, starts bakes.',
      workloadValues('the controller', CONTROLLER),
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
      install: yesOrNo(true, 'Make them.'),
    }),
    cleanup: group('What is done when the release is uninstalled.', {
      enabled: yesOrNo(
        true,
        'End the pods while they have their rights, and afterwards take the finalizers of Davit off credentials and settings, so that they and their namespaces can be deleted while no Davit runs: two Jobs, with the image of the chart.',
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
    podSecurityContext: object({}, 'More than the chart sets for the pods of both roles, such as `fsGroup`.'),
    revisionHistoryLimit: integer(3, [0, 100], 'Old ReplicaSets that are kept.'),
    global: object({}, 'For charts that have this one in them; not read.'),
  })
}

/** No limit of CPU: a role that is held back renews its Lease late. */
const CONTROLLER = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
const API = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
