/** The chart's values, from which values.yaml, values.schema.json and docs/reference/helm-values.md are made. */
import { z } from 'zod'
import {
  nodeSelector,
  objectName,
  podAnnotations,
  podLabels,
  tolerations,
} from '../../../src/apis/bake-pod.ts'
import { size } from '../../../src/cmd/setting-parsers.ts'
import { configValues } from './config-values.ts'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'
import {
  allowUnencrypted,
  autoscaling,
  httpRoute,
  ingress,
  service,
  tls,
  workloadValues,
} from './workload-values.ts'

const dnsLabel = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
/** Empty or what may be the rest, or the whole, of the name of a Service: without dots, and with a letter first. */
const nameEnd = z.string().regex(/^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$/)
const nameStart = z.string().regex(/^([a-z]([-a-z0-9]*[a-z0-9])?)?$/)
const ports = z.array(z.int().min(1).max(65_535)).min(1)

const image = group('The image of every Pod, including those of bakes.', {
  repository: text(
    '',
    'repository is the name of the image, such as registry.example.com/davit. Required: no image is published yet, see docs/guides/build-the-image.md to build your own.',
  ),
  tag: text('', 'tag is the tag of the image. If empty, the version of the chart is used.'),
  digest: text('', 'digest is the digest of the image, `sha256:...`. If set, it overrides `image.tag`.'),
  pullPolicy: value(
    z.enum(['Always', 'IfNotPresent', 'Never']),
    'IfNotPresent',
    'pullPolicy specifies when nodes pull the image.',
  ),
})

const crds = group('The CustomResourceDefinitions.', {
  install: yesOrNo(
    true,
    'install specifies whether the chart installs the CustomResourceDefinitions, and updates them with each upgrade.',
  ),
  keep: yesOrNo(
    true,
    'keep specifies whether an uninstall keeps the CustomResourceDefinitions, and with them all objects of organizations.',
  ),
})

const etcd = group('The etcd of the cluster that Davit runs in.', {
  quotaBytes: value(
    size('256Mi', '1024Ti', '2Gi'),
    '2Gi',
    'quotaBytes is the quota of etcd (`--quota-backend-bytes`), a size such as `8Gi` or a number of bytes. The quota is 2 GiB if it is not set there. The size limits in `config` must not exceed 60% of it in total, see docs/guides/capacity.md.',
  ),
})

const aws = group(
  'The AWS identity of Davit. It needs permission to assume the roles that organizations name, and no other permission.',
  {
    region: text('', 'region is the AWS region that Davit itself uses.'),
    identity: value(
      z.enum(['none', 'irsa', 'pod-identity', 'web-identity']),
      'none',
      'identity is the source of the AWS identity. `irsa`: an annotation of the ServiceAccounts, which EKS reads. `pod-identity`: EKS Pod Identity associations with the ServiceAccounts, which you create outside of the cluster. `web-identity`: a token that the chart mounts, for clusters other than EKS whose issuer AWS trusts.',
    ),
    roleArn: text(
      '',
      'roleArn is the IAM role of the controller and of the REST API. Required with `irsa` and `web-identity`, unless both roles have their own.',
    ),
  },
)

const smtp = group('The mail server for emails to owners. `config.smtpFrom` is the sender.', {
  existingSecret: text(
    '',
    'existingSecret is a Secret with the URL of the mail server, `smtp://user:password@host:port`. If set, `config.smtpFrom` is required. If empty, Davit sends no emails.',
  ),
  key: text('url', 'key is the key of the URL in `smtp.existingSecret`.'),
})

const extraCa = group(
  'Certificate authorities to trust for receivers and the mail server, in addition to the well-known ones.',
  {
    configMap: text(
      '',
      'configMap is a ConfigMap in the namespace of the release with the certificate authorities to trust for receivers and the mail server. If empty, only the well-known ones are trusted.',
    ),
    key: text(
      'ca.crt',
      'key is the key in `extraCa.configMap` that contains the certificates in PEM format.',
    ),
  },
)

const bakes = group('Bakes of boxes.', {
  enabled: yesOrNo(
    true,
    'enabled specifies whether Davit bakes the templates of organizations, with the image of the chart or `config.bakeImage`. If false, a condition of each template reports this, and the controller has no access to Jobs and Pods.',
  ),
  podSecurityContext: object(
    {},
    'podSecurityContext is merged into the security context of the Pods of bakes; null removes a field. Fields that would give the Pods privileges are rejected. On OpenShift, which assigns the IDs itself, set `runAsUser`, `runAsGroup` and `fsGroup` to null.',
  ),
  nodeSelector: value(nodeSelector, {}, 'nodeSelector of the Pods of bakes.'),
  tolerations: value(tolerations, [], 'tolerations of the Pods of bakes.'),
  affinity: object({}, 'affinity of the Pods of bakes.'),
  priorityClassName: text('', 'priorityClassName of the Pods of bakes.'),
  imagePullSecrets: value(
    z.array(z.strictObject({ name: objectName })).max(16),
    [],
    'imagePullSecrets is the list of Secrets with which nodes pull the image of bakes. Every organization needs Secrets of these names. Pods also use those of their ServiceAccount.',
  ),
  podAnnotations: value(podAnnotations, {}, 'podAnnotations are added to the Pods of bakes.'),
  podLabels: value(
    podLabels,
    {},
    'podLabels are added to the Pods of bakes, in addition to `commonLabels` and the labels of Davit.',
  ),
})

const tenantRoles = group(
  'The ClusterRoles `davit-owner`, `davit-publisher` and `davit-viewer`, which you bind in organizations.',
  {
    install: yesOrNo(
      true,
      'install specifies whether the chart creates the ClusterRoles `davit-owner`, `davit-publisher` and `davit-viewer`.',
    ),
    aggregate: yesOrNo(
      true,
      'aggregate specifies whether `davit-owner` is aggregated to `admin`, and `davit-viewer` to `view`. `edit` never gets the permissions of `davit-owner`.',
    ),
    readEventTypes: yesOrNo(
      true,
      'readEventTypes specifies whether every user and ServiceAccount in the cluster may read EventTypes with kubectl (ClusterRole `davit-event-types`).',
    ),
  },
)

const networkPolicy = group('NetworkPolicies that allow only the required traffic to and from the Pods.', {
  enabled: yesOrNo(true, 'enabled specifies whether the chart creates the NetworkPolicies.'),
  apiServer: objects(
    [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }],
    'apiServer is the list of NetworkPolicy peers of the API server. The default is every address, including private ones, on `networkPolicy.apiServerPorts`. Restrict it to the addresses of your API server.',
  ),
  apiServerPorts: value(ports, [443, 6443], 'apiServerPorts is the list of ports of the API server.'),
  aws: objects(
    [],
    'aws is the list of NetworkPolicy peers of AWS on `networkPolicy.awsPorts`, in addition to its public addresses. If you restrict `networkPolicy.apiServer`, add the interface endpoints of your VPC here, because they have private addresses.',
  ),
  awsPorts: value(
    ports,
    [443],
    'awsPorts is the list of ports of AWS. Change it if a setting such as `config.awsEndpointUrl` names another port.',
  ),
  dns: objects(
    [{ namespaceSelector: {} }],
    'dns is the list of NetworkPolicy peers of the DNS server. The default is every Pod of the cluster. If your nodes run NodeLocal DNSCache, add its address, see docs/guides/install.md.',
  ),
  dnsPorts: value(
    ports,
    [53],
    'dnsPorts is the list of ports on which the Pods of the DNS server listen, for UDP and TCP. For OpenShift, add 5353.',
  ),
  apiFrom: objects(
    [],
    'apiFrom is the list of NetworkPolicy peers that may call the REST API. If empty, all peers may.',
  ),
  opsFrom: objects(
    [],
    'opsFrom is the list of NetworkPolicy peers that may read metrics and health, such as the namespace of Prometheus. The Pods of this release always may.',
  ),
  extraEgress: objects(
    [],
    'extraEgress is a list of additional egress rules, for example for an internal mail server.',
  ),
})

const clusterReceivers = value(
  z.array(
    z.strictObject({
      namespace: dnsLabel,
      service: dnsLabel,
      podLabels: z.record(z.string(), z.string()).optional(),
    }),
  ),
  [],
  'clusterReceivers is the list of Services in this cluster that webhooks may reach, also by plain http: `namespace`, `service`, and optionally `podLabels` of its Pods. The chart adds the host names of the Services to `config.allowedHosts`, and lets the controller connect to their Pods. Endpoints use `http://SERVICE.NAMESPACE.svc.cluster.local:PORT`.',
)

const helmTest = group('`helm test`, which checks the release.', {
  delivery: yesOrNo(
    true,
    'delivery specifies whether `helm test` sends a webhook to its own Pod. For this purpose it creates an organization (a namespace) with a unique name, such as davit-test-1b2c3d4e, and deletes it afterwards.',
  ),
})

const serviceMonitor = group('ServiceMonitors for the Prometheus Operator.', {
  enabled: yesOrNo(false, 'enabled specifies whether the chart creates a ServiceMonitor for each role.'),
  labels: strings(
    {},
    'labels are added to the ServiceMonitors, so that Prometheus selects them. For kube-prometheus-stack, set `release` to the name of its release.',
  ),
  interval: text('30s', 'interval is the scrape interval.'),
})

const prometheusRule = group(
  'A PrometheusRule with the alerts in `files/alerts.yaml`, see docs/guides/monitor.md.',
  {
    enabled: yesOrNo(
      false,
      'enabled specifies whether the chart creates a PrometheusRule with the alerts in `files/alerts.yaml`.',
    ),
    labels: strings(
      {},
      'labels are added to the PrometheusRule, so that Prometheus selects it. For kube-prometheus-stack, set `release` to the name of its release.',
    ),
    annotations: strings({}, 'annotations are added to the PrometheusRule.'),
    alertLabels: strings(
      {},
      'alertLabels are added to every alert, in addition to its severity, for example to route it to a team.',
    ),
    disabled: names(
      [],
      'disabled is the list of alerts to leave out of the PrometheusRule, such as `DavitOwnersNotNotified`.',
    ),
    runbooks: text(
      '',
      'runbooks is the URL of your copy of `docs/troubleshooting/alerts`, such as `https://git.example.com/davit/docs/troubleshooting/alerts`. It is the prefix of the annotation `runbook_url`. If empty, alerts have no `runbook_url`.',
    ),
  },
)

const dashboards = group('ConfigMaps with the dashboards in `files/dashboards`, for Grafana 11 or later.', {
  enabled: yesOrNo(
    false,
    'enabled specifies whether the chart creates ConfigMaps with the dashboards in `files/dashboards`.',
  ),
  labels: strings(
    { grafana_dashboard: '1' },
    'labels are added to the ConfigMaps of the dashboards, so that the Grafana sidecar selects them.',
  ),
  annotations: strings(
    {},
    'annotations are added to the ConfigMaps of the dashboards, such as `grafana_folder` for the folder in Grafana.',
  ),
})

const metrics = group('What monitors Davit: see docs/guides/monitor.md.', {
  serviceMonitor,
  prometheusRule,
  dashboards,
})

/** @param about returns the description of a setting of `config` */
export function chartValues(about: (variable: string) => string) {
  return z.strictObject({
    enabled: z.boolean().optional().meta({
      description:
        'enabled is for parent charts, as the condition of this dependency (`condition: davit.enabled`). This chart does not use it.',
    }),
    nameOverride: value(
      nameEnd,
      '',
      'nameOverride replaces `davit` in the names of resources. It must not contain dots.',
    ),
    fullnameOverride: value(
      nameStart,
      '',
      'fullnameOverride replaces the generated prefix of all resource names. It must start with a letter, and must not contain dots, because Services have this prefix.',
    ),
    commonLabels: strings(
      {},
      'commonLabels are added to all objects and Pods. They override labels of the chart with the same key, except those by which Davit finds objects.',
    ),
    image,
    imagePullSecrets: value(
      z.array(z.strictObject({ name: z.string().min(1) })),
      [],
      'imagePullSecrets is the list of Secrets with which the Davit Pods pull the image. For bakes, see `bakes.imagePullSecrets`.',
    ),
    crds,
    config: configValues(about).optional().meta({
      description:
        'config contains the settings of Davit. Unset settings have their default, see docs/reference/settings.md.',
    }),
    organizations: value(
      z.array(dnsLabel),
      [],
      'organizations is the list of organizations in which Davit may access Secrets: to read input Secrets, and to write those of `spec.signingSecret`. Davit has no access to Secrets of other organizations, unless you bind the ClusterRole `davit-organization-secrets` there yourself.',
    ),
    etcd,
    aws,
    smtp,
    extraCa,
    bakes,
    controller: group(
      '`davit controller`, which delivers webhooks, stores secrets in AWS accounts and starts bakes.',
      workloadValues(
        'controller',
        CONTROLLER,
        ' The Jobs of an uninstall and the Pod of `helm test` use it too.',
      ),
    ),
    api: group('`davit api`, which serves the REST API.', {
      ...workloadValues('REST API', API),
      autoscaling,
      allowUnencrypted,
      service,
      tls,
      ingress,
      httpRoute,
    }),
    tenantRoles,
    admissionPolicies: group('ValidatingAdmissionPolicies for restrictions that RBAC cannot express.', {
      install: yesOrNo(true, 'install specifies whether the chart creates the ValidatingAdmissionPolicies.'),
    }),
    cleanup: group('Cleanup when the release is uninstalled.', {
      enabled: yesOrNo(
        true,
        'enabled specifies whether an uninstall runs two Jobs with the image of the chart. The first stops the Pods while they still have their permissions. The second removes the finalizers of Davit from credentials and settings, so that you can delete these objects and their namespaces without Davit.',
      ),
    }),
    networkPolicy,
    clusterReceivers,
    clusterDomain: text('cluster.local', 'clusterDomain is the DNS domain of the cluster.'),
    helmTest,
    metrics,
    ipFamily: value(
      z.enum(['IPv4', 'IPv6']),
      'IPv4',
      'ipFamily is the IP family that the Pods listen on. `IPv6` accepts both.',
    ),
    podSecurityContext: object(
      {},
      'podSecurityContext is merged into the security context of all Davit Pods, for example to set `fsGroup`. It overrides fields that the chart sets. For bakes, see `bakes.podSecurityContext`.',
    ),
    revisionHistoryLimit: integer(
      3,
      [0, 100],
      'revisionHistoryLimit is the number of old ReplicaSets to keep.',
    ),
    global: object({}, 'global is for parent charts. This chart does not use it.'),
  })
}

/** No CPU limit: a throttled role renews its Lease late. */
const CONTROLLER = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
const API = { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '1Gi' } }
