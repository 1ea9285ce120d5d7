/** Values of both roles: the form of their pods and their placement. */

import { z } from 'zod'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'

/** Of a ServiceAccount; empty for the chart's own. */
const accountName = z
  .string()
  .max(253)
  .regex(/^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$/)
const named = z.looseObject({ name: z.string().min(1) })
const mount = named.extend({ mountPath: z.string().min(1) })

const intOrPercent = z.union([z.int().min(0), z.string().regex(/^[0-9]+%$/)])

/** @param role as in `controller Pods` @param also a sentence about other Pods with the same placement */
export function workloadValues(role: string, resources: Record<string, unknown>, also = '') {
  return {
    replicas: integer(2, [0, 100], `replicas is the number of ${role} Pods.`),
    resources: object(resources, `resources is the resource requests and limits of the ${role} Pods.`),
    serviceAccount: group(`The ServiceAccount of the ${role} Pods.`, {
      create: yesOrNo(
        true,
        `create specifies whether the chart creates the ServiceAccount of the ${role} Pods. If false, it must already exist.`,
      ),
      name: value(
        accountName,
        '',
        `name is the name of the ServiceAccount of the ${role} Pods. If empty, the name of the Deployment is used.`,
      ),
      annotations: strings(
        {},
        `annotations are added to the ServiceAccount of the ${role} Pods, in addition to the annotation for \`aws\`.`,
      ),
    }),
    roleArn: text('', `roleArn is the IAM role of the ${role} Pods. If empty, \`aws.roleArn\` is used.`),
    podDisruptionBudget: group(`The PodDisruptionBudget of the ${role} Pods.`, {
      enabled: yesOrNo(
        true,
        `enabled specifies whether the chart creates a PodDisruptionBudget if there is more than one ${role} Pod.`,
      ),
      maxUnavailable: value(
        intOrPercent,
        1,
        `maxUnavailable is the number or percentage of ${role} Pods that may be unavailable while nodes are drained.`,
      ),
    }),
    topologySpreadConstraints: value(
      z.array(z.record(z.string(), z.unknown())).nullable(),
      null,
      `topologySpreadConstraints of the ${role} Pods. If null, the Pods are spread over nodes and zones if possible.`,
    ),
    nodeSelector: strings({}, `nodeSelector of the ${role} Pods.${also}`),
    tolerations: objects([], `tolerations of the ${role} Pods.${also}`),
    affinity: object({}, `affinity of the ${role} Pods.`),
    priorityClassName: text('', `priorityClassName of the ${role} Pods.${also}`),
    podAnnotations: strings({}, `podAnnotations are added to the ${role} Pods.`),
    podLabels: strings(
      {},
      `podLabels are added to the ${role} Pods, in addition to the labels of the chart.`,
    ),
    extraEnv: value(
      z.array(named),
      [],
      `extraEnv is a list of additional environment variables of the ${role} Pods, such as \`NODE_OPTIONS\`. It must not contain variables that other values set. Put settings of Davit into \`config\`.`,
    ),
    extraVolumes: value(
      z.array(named),
      [],
      `extraVolumes is a list of additional volumes of the ${role} Pods. Their names must differ from those of the chart's volumes.`,
    ),
    extraVolumeMounts: value(
      z.array(mount),
      [],
      `extraVolumeMounts is a list of additional volume mounts of the ${role} container, for example for \`extraVolumes\`. Each needs its own path.`,
    ),
  }
}

export const autoscaling = group('The HorizontalPodAutoscaler of the REST API.', {
  enabled: yesOrNo(
    false,
    'enabled specifies whether the chart creates a HorizontalPodAutoscaler for the REST API, which replaces `api.replicas`. It requires metrics-server or another source of resource metrics.',
  ),
  minReplicas: integer(
    2,
    [1, 100],
    'minReplicas is the minimum number of REST API Pods. It must not exceed `api.autoscaling.maxReplicas`.',
  ),
  maxReplicas: integer(6, [1, 100], 'maxReplicas is the maximum number of REST API Pods.'),
  targetCPUUtilizationPercentage: integer(
    70,
    [1, 100],
    'targetCPUUtilizationPercentage is the target CPU usage of a Pod, as a percentage of its CPU request.',
  ),
  metrics: objects(
    [],
    'metrics is a list of additional metrics to scale by, in the format of a HorizontalPodAutoscaler (`autoscaling/v2`), such as requests per second.',
  ),
})

export const allowUnencrypted = yesOrNo(
  false,
  'allowUnencrypted specifies whether clients outside of the cluster may use unencrypted HTTP. If false, the chart rejects a Service of the type `LoadBalancer` or `NodePort` without `api.tls.enabled`, and an Ingress with a host that `api.ingress.tls` does not contain. Set it to `true` if a load balancer or a default certificate of the Ingress controller terminates TLS. Otherwise, API tokens and registry secrets cross the network unencrypted.',
)

export const service = group('The Service of the REST API.', {
  type: value(
    z.enum(['ClusterIP', 'NodePort', 'LoadBalancer']),
    'ClusterIP',
    'type is the type of the Service of the REST API. `LoadBalancer` and `NodePort` require `api.tls.enabled` or `api.allowUnencrypted`.',
  ),
  port: value(
    z.int().min(1).max(65_535).nullable(),
    null,
    'port is the port of the Service of the REST API. If null, it is 443 if the Pods serve TLS, otherwise 80.',
  ),
  annotations: strings(
    {},
    'annotations are added to the Service of the REST API, for example for a load balancer.',
  ),
  loadBalancerSourceRanges: names(
    [],
    'loadBalancerSourceRanges is the list of networks from which the load balancer of the REST API accepts connections.',
  ),
})

export const tls = group('TLS in the Pods of the REST API.', {
  enabled: yesOrNo(
    false,
    'enabled specifies whether the Pods of the REST API serve HTTPS. If false, they serve unencrypted HTTP; terminate TLS at a proxy in front of them.',
  ),
  secretName: text(
    '',
    'secretName is a Secret of the type `kubernetes.io/tls` with the certificate of the REST API. If empty, the Secret that cert-manager creates is used. Renewed certificates are loaded without a restart.',
  ),
  certManager: group('A cert-manager Certificate for the Secret.', {
    enabled: yesOrNo(
      false,
      'enabled specifies whether the chart creates a cert-manager Certificate for the REST API. Requires `api.tls.enabled`.',
    ),
    issuerRef: strings(
      { kind: 'ClusterIssuer', name: '' },
      'issuerRef is the issuer of the cert-manager Certificate.',
    ),
    internalNames: yesOrNo(
      true,
      'internalNames specifies whether the cert-manager Certificate contains the cluster-internal names of the Service, such as `davit-api.davit-system.svc`. Public ACME issuers reject these names: set it to `false` for them, and set `dnsNames` to the names that clients use. `helm test` then does not call the REST API.',
    ),
    dnsNames: names(
      [],
      'dnsNames is a list of additional names in the cert-manager Certificate. Required if `api.tls.certManager.internalNames` is false.',
    ),
  }),
})

export const ingress = group('The Ingress of the REST API.', {
  enabled: yesOrNo(false, 'enabled specifies whether the chart creates an Ingress for the REST API.'),
  className: text('', 'className is the IngressClass of the Ingress.'),
  hosts: value(
    z.array(
      z.strictObject({
        host: z.string().min(1),
        paths: z
          .array(
            z.strictObject({
              path: z.string(),
              pathType: z.enum(['Prefix', 'Exact', 'ImplementationSpecific']),
            }),
          )
          .optional(),
      }),
    ),
    [],
    'hosts is the list of hosts of the REST API in the Ingress, each with `host` and optionally `paths` (default: all). Required if `api.ingress.enabled` is true.',
  ),
  tls: value(
    z.array(
      z.strictObject({ secretName: z.string().min(1).optional(), hosts: z.array(z.string().min(1)).min(1) }),
    ),
    [],
    'tls is the list of certificates: `hosts`, and `secretName` of the Secret with their certificate. Without `secretName`, the Ingress controller uses its default certificate. Each host in `api.ingress.hosts` must be among them, unless `api.allowUnencrypted` is true.',
  ),
  annotations: strings({}, 'annotations are added to the Ingress, for example for the Ingress controller.'),
})

export const httpRoute = group('The Gateway API HTTPRoute of the REST API.', {
  enabled: yesOrNo(
    false,
    'enabled specifies whether the chart creates a Gateway API HTTPRoute for the REST API.',
  ),
  parentRefs: objects(
    [],
    'parentRefs is the list of Gateways that the HTTPRoute attaches to. Required if `api.httpRoute.enabled` is true. Set `sectionName` to the HTTPS listener of the Gateway: otherwise, the HTTPRoute also attaches to listeners for unencrypted HTTP.',
  ),
  hostnames: names([], 'hostnames is the list of host names of the REST API in the HTTPRoute.'),
  annotations: strings({}, 'annotations are added to the HTTPRoute.'),
})
