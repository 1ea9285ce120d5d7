/** Realistic sets of chart values. */
import type { Values } from './helm.ts'

const ROLE = 'arn:aws:iam::123456789012:role/platform/davit'

export const VALUE_SETS: Readonly<Record<string, Values>> = {
  'nothing is set': {},
  'one pod of each': { controller: { replicas: 1 }, api: { replicas: 1 } },
  'names of its own': {
    fullnameOverride: 'hooks',
    commonLabels: { team: 'platform', 'app.kubernetes.io/part-of': 'hooks' },
    controller: { serviceAccount: { name: 'sender', annotations: { note: 'ours' } } },
    api: { serviceAccount: { create: false, name: 'rest-server' } },
  },
  'an image by its digest, from a registry with a login': {
    image: {
      repository: 'registry.example.com:5000/team/davit',
      digest: `sha256:${'a'.repeat(64)}`,
      pullPolicy: 'Always',
    },
    imagePullSecrets: [{ name: 'registry-login' }],
  },
  'definitions, roles and policies from elsewhere': {
    crds: { install: false },
    tenantRoles: { install: false },
    admissionPolicies: { install: false },
    networkPolicy: { enabled: false },
  },
  'roles that become part of none, definitions that go': {
    crds: { keep: false },
    tenantRoles: { aggregate: false },
  },
  'settings of every form': {
    etcd: { quotaBytes: 274_877_906_944 },
    config: {
      maxPending: 300_000,
      maxWrittenBytes: 68_719_476_736,
      maxOpenBytes: 17_179_869_184,
      maxOpenBytesPerOrganization: 8_589_934_592,
      waitScale: 0.5,
      requireWriteOnly: true,
      allowedNetworks: ['10.0.0.0/8', 'fd00::/8'],
      deniedNetworks: ['10.96.0.0/12', '2001:db9::/32'],
      allowedHosts: ['hooks.example.internal'],
      bakeRealms: ['auth.example.com', 'tokens.example.com:8443'],
      bakeCaConfigMap: 'trust/ca-bundle.crt',
      bakeImage: 'registry.example.com/davit:1',
      logLevel: 'warn',
      shutdownTimeout: '1m',
      awsEndpointUrl: 'https://aws.example.com',
      awsUseFipsEndpoint: true,
    },
    organizations: ['acme', '123'],
    clusterReceivers: [
      { namespace: 'acme', service: 'receiver', podLabels: { app: 'receiver' } },
      { namespace: 'acme', service: 'other' },
    ],
    clusterDomain: 'cluster.example',
    helmTest: { delivery: false },
  },
  'mails, authorities and IPv6': {
    smtp: { existingSecret: 'mail', key: 'smtp-url' },
    config: { smtpFrom: 'Davit <davit@example.com>' },
    extraCa: { configMap: 'authorities', key: 'bundle.pem' },
    ipFamily: 'IPv6',
  },
  'roles of AWS for ServiceAccounts': {
    aws: { identity: 'irsa', region: 'eu-west-1', roleArn: ROLE },
    api: { roleArn: `${ROLE}-api` },
  },
  'pod identities of EKS': { aws: { identity: 'pod-identity', region: 'eu-west-1' } },
  'tokens for AWS that the chart mounts': {
    aws: { identity: 'web-identity', region: 'eu-west-1', roleArn: ROLE },
  },
  'TLS with a Secret, behind a load balancer': {
    api: {
      tls: { enabled: true, secretName: 'davit-certificate' },
      service: { type: 'LoadBalancer', port: 8443, loadBalancerSourceRanges: ['192.0.2.0/24'] },
    },
    networkPolicy: {
      apiFrom: [{ ipBlock: { cidr: '192.0.2.0/24' } }],
      opsFrom: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
      apiServer: [{ ipBlock: { cidr: '203.0.113.10/32' } }],
      apiServerPorts: [6443],
      aws: [{ ipBlock: { cidr: '10.9.0.0/24' } }],
      extraEgress: [{ to: [{ ipBlock: { cidr: '10.1.2.3/32' } }], ports: [{ port: 25 }] }],
    },
  },
  'a load balancer that ends TLS, and DNS on other ports': {
    api: { service: { type: 'LoadBalancer' }, allowUnencrypted: true },
    networkPolicy: {
      dns: [
        { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'openshift-dns' } } },
        { ipBlock: { cidr: '169.254.20.10/32' } },
      ],
      dnsPorts: [53, 5353],
      aws: [{ ipBlock: { cidr: '10.9.0.0/24' } }],
      awsPorts: [443, 8443],
    },
  },
  'TLS with cert-manager, an autoscaler, an Ingress and a Gateway': {
    api: {
      autoscaling: {
        enabled: true,
        minReplicas: 3,
        maxReplicas: 9,
        metrics: [
          {
            type: 'Pods',
            pods: {
              metric: { name: 'davit_http_requests_per_second' },
              target: { type: 'AverageValue', averageValue: '500' },
            },
          },
        ],
      },
      tls: {
        enabled: true,
        certManager: {
          enabled: true,
          issuerRef: { kind: 'ClusterIssuer', name: 'internal' },
          dnsNames: ['hooks.example.com'],
        },
      },
      ingress: {
        enabled: true,
        className: 'nginx',
        hosts: [
          { host: 'hooks.example.com' },
          { host: 'other.example.com', paths: [{ path: '/davit', pathType: 'Exact' }] },
        ],
        tls: [{ secretName: 'public', hosts: ['hooks.example.com', 'other.example.com'] }],
        annotations: { 'nginx.ingress.kubernetes.io/backend-protocol': 'HTTPS' },
      },
      httpRoute: {
        enabled: true,
        parentRefs: [{ name: 'public', sectionName: 'https' }],
        hostnames: ['hooks.example.com'],
      },
    },
  },
  'TLS with cert-manager, from a public issuer': {
    api: {
      tls: {
        enabled: true,
        certManager: {
          enabled: true,
          issuerRef: { kind: 'ClusterIssuer', name: 'letsencrypt' },
          internalNames: false,
          dnsNames: ['hooks.example.com'],
        },
      },
    },
  },
  'monitoring by the Prometheus Operator': {
    commonLabels: { release: 'ours' },
    metrics: {
      serviceMonitor: { enabled: true, labels: { release: 'monitoring' }, interval: '15s' },
      prometheusRule: {
        enabled: true,
        labels: { release: 'monitoring' },
        annotations: { note: 'ours' },
        alertLabels: { team: 'platform' },
        disabled: ['DavitOwnersNotNotified'],
        runbooks: 'https://git.example.com/davit/docs/troubleshooting/alerts/',
      },
      dashboards: { enabled: true, annotations: { grafana_folder: 'Davit' } },
    },
  },
  'places, variables and volumes of its own': {
    controller: {
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [{ key: 'dedicated', operator: 'Exists' }],
      priorityClassName: 'system-cluster-critical',
      topologySpreadConstraints: [],
      podAnnotations: { note: 'ours', 'kubectl.kubernetes.io/default-container': 'davit' },
      podLabels: { team: 'platform', 'app.kubernetes.io/version': 'ours' },
      podDisruptionBudget: { maxUnavailable: '50%' },
      extraEnv: [{ name: 'NODE_OPTIONS', value: '--max-semi-space-size=16' }],
      extraVolumes: [{ name: 'scratch', emptyDir: { sizeLimit: '10Mi' } }],
      extraVolumeMounts: [{ name: 'scratch', mountPath: '/tmp' }],
      affinity: { podAntiAffinity: {} },
    },
    bakes: { enabled: false },
    config: { bakeImage: 'registry.example.com/davit:1', bakeCaConfigMap: 'trust' },
    podSecurityContext: { fsGroup: 2000, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
  },
  'bakes with Pods of their own form': {
    commonLabels: { team: 'platform' },
    image: { repository: 'registry.example.com/davit', pullPolicy: 'Always' },
    config: { bakeCpu: '2', bakeMemory: '1Gi', bakeScratch: '100Gi', bakeCaConfigMap: 'trust' },
    bakes: {
      podSecurityContext: {
        runAsUser: null,
        runAsGroup: null,
        fsGroup: null,
        supplementalGroups: [1_000_660_000],
        seccompProfile: { type: 'Localhost', localhostProfile: 'profiles/bake.json' },
      },
      nodeSelector: { 'example.com/pool': 'bakes', spot: '' },
      tolerations: [
        { key: 'dedicated', operator: 'Equal', value: 'bakes', effect: 'NoSchedule' },
        { key: 'spot', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 3600 },
      ],
      affinity: {
        nodeAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            {
              weight: 10,
              preference: { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a', 'b'] }] },
            },
          ],
        },
      },
      priorityClassName: 'batch',
      imagePullSecrets: [{ name: 'mirror' }, { name: 'other' }],
      podAnnotations: { 'example.com/note': `it's "ours" <&> \\o/` },
      podLabels: { 'example.com/cost': '1234' },
    },
  },
}
