/** Values that both roles have: what their pods are, and where they run. */

import { z } from 'zod'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'

const intOrPercent = z.union([z.int().min(0), z.string().regex(/^[0-9]+%$/)])

/** @param role as in a sentence */
export function workloadValues(role: string, resources: Record<string, unknown>) {
  return {
    replicas: integer(2, [0, 100], `Pods of ${role}.`),
    resources: object(resources, `What a pod of ${role} asks for, and gets at most.`),
    serviceAccount: group(`The ServiceAccount of ${role}.`, {
      create: yesOrNo(true, 'Make it. Otherwise it is there already, by its name.'),
      name: text('', 'Its name; empty: that of the Deployment.'),
      annotations: strings({}, 'Annotations of it, beside that of `aws`.'),
    }),
    roleArn: text('', `An IAM role of ${role} of its own, instead of \`aws.roleArn\`.`),
    podDisruptionBudget: group('How many pods may be missing while nodes are drained.', {
      enabled: yesOrNo(true, 'Make a PodDisruptionBudget, where there is more than one pod.'),
      maxUnavailable: value(intOrPercent, 1, 'Pods, or a share of them, that may be missing.'),
    }),
    topologySpreadConstraints: value(
      z.array(z.record(z.string(), z.unknown())).nullable(),
      null,
      'How pods are spread; null: over nodes and zones, where that is possible.',
    ),
    nodeSelector: strings({}, 'Labels of the nodes that pods may be on.'),
    tolerations: objects([], 'Taints of nodes that do not matter.'),
    affinity: object({}, 'Rules of the scheduler.'),
    priorityClassName: text('', 'How important the pods are to the scheduler.'),
    podAnnotations: strings({}, 'Annotations of the pods.'),
    podLabels: strings({}, 'Labels of the pods, beside those of the chart.'),
    extraEnv: objects(
      [],
      'More variables of the container, such as `HTTPS_PROXY`; settings of Davit belong into `config`.',
    ),
    extraVolumes: objects([], 'More volumes of the pods.'),
    extraVolumeMounts: objects([], 'Where they are mounted.'),
  }
}

export const autoscaling = group('A HorizontalPodAutoscaler for the REST API, instead of `api.replicas`.', {
  enabled: yesOrNo(false, 'Make it. It needs metrics-server, or what takes its place.'),
  minReplicas: integer(2, [1, 100], 'The fewest pods.'),
  maxReplicas: integer(6, [1, 100], 'The most pods.'),
  targetCPUUtilizationPercentage: integer(70, [1, 100], 'Part of the requested CPU that a pod should use.'),
})

export const service = group('The Service of the REST API.', {
  type: value(z.enum(['ClusterIP', 'NodePort', 'LoadBalancer']), 'ClusterIP', 'Its type.'),
  port: value(
    z.int().min(1).max(65_535).nullable(),
    null,
    'Its port; null: 443 where the pods serve TLS, else 80.',
  ),
  annotations: strings({}, 'Annotations, such as those that a load balancer reads.'),
  loadBalancerSourceRanges: names([], 'Networks from which a load balancer takes connections.'),
})

export const tls = group(
  'TLS in the pods of the REST API. Without it they serve plain http, and something in front ends TLS.',
  {
    enabled: yesOrNo(false, 'Serve https.'),
    secretName: text(
      '',
      'A Secret of the type `kubernetes.io/tls`; empty, with cert-manager: the one that it fills. A renewed certificate is taken up without a restart.',
    ),
    certManager: group('A Certificate of cert-manager that fills the Secret.', {
      enabled: yesOrNo(false, 'Make it.'),
      issuerRef: strings({ kind: 'ClusterIssuer', name: '' }, 'Who issues it.'),
      dnsNames: names([], 'More names than those of the Service.'),
    }),
  },
)

export const ingress = group('An Ingress that leads to the REST API.', {
  enabled: yesOrNo(false, 'Make it.'),
  className: text('', 'The class of the controller.'),
  host: text('', 'The name under which clients call it. Required with it.'),
  tlsSecretName: text(
    '',
    'A Secret with the certificate of that name; empty: that of the Ingress controller.',
  ),
  annotations: strings({}, 'Annotations that the controller reads.'),
})

export const httpRoute = group('An HTTPRoute of the Gateway API that leads to the REST API.', {
  enabled: yesOrNo(false, 'Make it.'),
  parentRefs: objects([], 'The Gateways that it belongs to. Required with it.'),
  hostnames: names([], 'The names under which clients call it.'),
  annotations: strings({}, 'Annotations.'),
})
