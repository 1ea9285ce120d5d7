/** Values of both roles: the form of their pods and their placement. */

import { z } from 'zod'
import { group, integer, names, object, objects, strings, text, value, yesOrNo } from './value-parts.ts'

const intOrPercent = z.union([z.int().min(0), z.string().regex(/^[0-9]+%$/)])

/** @param role as used in a sentence @param also what else runs in the same place */
export function workloadValues(role: string, resources: Record<string, unknown>, also = '') {
  return {
    replicas: integer(2, [0, 100], `Pods of ${role}.`),
    resources: object(resources, `What a pod of ${role} asks for, and gets at most.`),
    serviceAccount: group(`The ServiceAccount of ${role}.`, {
      create: yesOrNo(
        true,
        `Make the ServiceAccount of ${role}. Otherwise it is there already, by its name.`,
      ),
      name: text('', `The name of the ServiceAccount of ${role}; empty: that of the Deployment.`),
      annotations: strings({}, `Annotations of the ServiceAccount of ${role}, beside that of \`aws\`.`),
    }),
    roleArn: text('', `An IAM role of ${role} of its own, instead of \`aws.roleArn\`.`),
    podDisruptionBudget: group('How many pods may be missing while nodes are drained.', {
      enabled: yesOrNo(true, `Make a PodDisruptionBudget for ${role}, where there is more than one pod.`),
      maxUnavailable: value(
        intOrPercent,
        1,
        `Pods of ${role}, or a share of them, that may be missing while nodes are drained.`,
      ),
    }),
    topologySpreadConstraints: value(
      z.array(z.record(z.string(), z.unknown())).nullable(),
      null,
      `How pods of ${role} are spread; null: over nodes and zones, where that is possible.`,
    ),
    nodeSelector: strings({}, `Labels of the nodes that pods of ${role} may be on.${also}`),
    tolerations: objects([], `Taints of nodes that pods of ${role} do not mind.${also}`),
    affinity: object(
      {},
      `Where the scheduler puts pods of ${role}: near to or away from nodes and other pods.`,
    ),
    priorityClassName: text('', `How important the pods of ${role} are to the scheduler.${also}`),
    podAnnotations: strings({}, `Annotations of the pods of ${role}.`),
    podLabels: strings({}, `Labels of the pods of ${role}, beside those of the chart.`),
    extraEnv: objects(
      [],
      `More variables of ${role}, such as \`HTTPS_PROXY\`; settings of Davit belong into \`config\`.`,
    ),
    extraVolumes: objects([], `More volumes of the pods of ${role}.`),
    extraVolumeMounts: objects([], `Where the volumes of \`extraVolumes\` are mounted in ${role}.`),
  }
}

export const autoscaling = group('A HorizontalPodAutoscaler for the REST API, instead of `api.replicas`.', {
  enabled: yesOrNo(
    false,
    'Make a HorizontalPodAutoscaler for the REST API, instead of `api.replicas`. It needs metrics-server, or what takes its place.',
  ),
  minReplicas: integer(
    2,
    [1, 100],
    'The fewest pods of the REST API that the autoscaler leaves; not more than `api.autoscaling.maxReplicas`.',
  ),
  maxReplicas: integer(6, [1, 100], 'The most pods of the REST API that the autoscaler makes.'),
  targetCPUUtilizationPercentage: integer(70, [1, 100], 'Part of the requested CPU that a pod should use.'),
})

export const service = group('The Service of the REST API.', {
  type: value(
    z.enum(['ClusterIP', 'NodePort', 'LoadBalancer']),
    'ClusterIP',
    'The type of the Service of the REST API.',
  ),
  port: value(
    z.int().min(1).max(65_535).nullable(),
    null,
    'The port of the Service of the REST API; null: 443 where the pods serve TLS, else 80.',
  ),
  annotations: strings(
    {},
    'Annotations of the Service of the REST API, such as those that a load balancer reads.',
  ),
  loadBalancerSourceRanges: names(
    [],
    'Networks from which a load balancer in front of the REST API takes connections.',
  ),
})

export const tls = group(
  'TLS in the pods of the REST API. Without it they serve plain http, and something in front ends TLS.',
  {
    enabled: yesOrNo(
      false,
      'Serve https in the pods of the REST API. Without it they serve plain http, and something in front ends TLS.',
    ),
    secretName: text(
      '',
      'A Secret of the type `kubernetes.io/tls` with the certificate of the REST API; empty, with cert-manager: the one that it fills. A renewed certificate is taken up without a restart.',
    ),
    certManager: group('A Certificate of cert-manager that fills the Secret.', {
      enabled: yesOrNo(
        false,
        'Make a Certificate of cert-manager for the REST API. It needs `api.tls.enabled`.',
      ),
      issuerRef: strings({ kind: 'ClusterIssuer', name: '' }, 'The issuer of that Certificate.'),
      internalNames: yesOrNo(
        true,
        'Whether that Certificate has the names of the Service inside of the cluster, such as `davit-api.davit-system.svc`. A public ACME issuer refuses them: set it to `false` there, and name what clients call in `dnsNames`. `helm test` then does not call the REST API.',
      ),
      dnsNames: names([], 'Names in that Certificate, beside those of the Service.'),
    }),
  },
)

export const ingress = group('An Ingress that leads to the REST API.', {
  enabled: yesOrNo(false, 'Make an Ingress that leads to the REST API.'),
  className: text('', 'The class of the controller that serves the Ingress.'),
  host: text(
    '',
    'The name under which clients call the REST API through the Ingress. Required with `api.ingress.enabled`.',
  ),
  tlsSecretName: text(
    '',
    'A Secret with the certificate of `api.ingress.host`; empty: that of the Ingress controller.',
  ),
  annotations: strings({}, 'Annotations of the Ingress, which its controller reads.'),
})

export const httpRoute = group('An HTTPRoute of the Gateway API that leads to the REST API.', {
  enabled: yesOrNo(false, 'Make an HTTPRoute of the Gateway API that leads to the REST API.'),
  parentRefs: objects(
    [],
    'The Gateways that the HTTPRoute belongs to. Required with `api.httpRoute.enabled`.',
  ),
  hostnames: names([], 'The names under which clients call the REST API through the HTTPRoute.'),
  annotations: strings({}, 'Annotations of the HTTPRoute.'),
})
