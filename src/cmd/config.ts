/**
 * All settings, read from the environment: the variables of each command as a table, and what they become. Only this file reads
 * process.env. Every mistake is reported at once, unknown DAVIT_ variables included, so that a typing error does not silently leave a default
 * active. The two programs that run with every image pull have a smaller table in node-helpers.ts, since they must start fast.
 */
import { hostname } from 'node:os'
import { z } from 'zod'
import { bakeOrder, MAX_ORDER_BYTES, ORDER_VARIABLE, OUTPUT_PATH, TMPFS_PATH } from '../apis/bake.ts'
import { platformEventTypes } from '../apis/builtin-event-types.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { counted } from '../lib/text.ts'
import {
  address,
  BAKE_IMAGE,
  bakePodVariables,
  configMapKey,
  duration,
  EHLO_NAME,
  endpointUrl,
  formerUids,
  hostNames,
  hosts,
  integer,
  MAILBOX,
  matching,
  networks,
  parameterPrefix,
  principalArn,
  quantity,
  replicaNameFromHost,
  size,
  smtpUrl,
  someOf,
  waitScale,
  yesOrNo,
} from './setting-parsers.ts'

// Libraries of the REST API print the requests that they get if it is set. They read it when they load, which is after this file.
delete process.env.DEBUG

export type Environment = Readonly<Record<string, string | undefined>>

export type Config = z.infer<typeof settings>['config']

/** Separate, so that the configuration can be logged. */
export type Secrets = z.infer<typeof settings>['secrets']

/** `given` is absent for secrets. */
export type ConfigMistake = { variable: string; given?: string; allowed: string }

export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly mistakes: readonly ConfigMistake[]

  constructor(mistakes: readonly ConfigMistake[]) {
    const lines = mistakes.map(({ variable, given, allowed }) =>
      given === undefined ? `${variable}: ${allowed}` : `${variable}=${given}: ${allowed}`,
    )
    super(`invalid configuration (${counted(mistakes.length, 'error')}):\n  ${lines.join('\n  ')}`)
    this.mistakes = mistakes
  }
}

export function readEnvironment(): Environment {
  return process.env
}

/** @throws ConfigError with every mistake, including those in secrets */
export function parseConfig(environment: Environment): Config {
  return parseSettings(environment).config
}

/** @throws ConfigError like `parseConfig` */
export function parseSecrets(environment: Environment): Secrets {
  return parseSettings(environment).secrets
}

export type EffectiveSetting = {
  variable: string
  /** As it is written in the environment; undefined without a value. */
  value: string | undefined
  source: 'environment' | 'default'
}

/** Every setting of the controller and the REST API, without secrets. @throws ConfigError with every mistake */
export function effectiveSettings(environment: Environment): EffectiveSetting[] {
  parseSettings(environment)
  return Object.entries(processVariables.shape).map(([variable, schema]) => {
    const given = environment[variable]
    if (given === undefined || given === '')
      return { variable, value: defaultText(schema), source: 'default' }
    const value = SECRET_VARIABLES.has(variable) ? '(secret)' : given
    return { variable, value, source: 'environment' }
  })
}

/** The default of a setting as a user would write it. */
function defaultText(schema: z.ZodType): string | undefined {
  const value =
    schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault ? schema.def.defaultValue : undefined
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return undefined
  if (typeof value !== 'object' || value === null) return String(value)
  const { host, port } = value as { host: string; port: number }
  return `${host}:${port}`
}

const isTrue = matching(/^(true|false)$/, 'must be true or false')
  .meta({ type: 'boolean' })
  .optional()
const endpoint = endpointUrl.optional()

/** Variables of the AWS SDK for the services that a bake calls. The controller passes them on to the Jobs. */
const awsEndpoints = {
  AWS_ENDPOINT_URL: endpoint,
  AWS_ENDPOINT_URL_ECR: endpoint,
  AWS_ENDPOINT_URL_SSM: endpoint,
  AWS_ENDPOINT_URL_STS: endpoint,
  AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: isTrue,
  AWS_USE_DUALSTACK_ENDPOINT: isTrue,
  AWS_USE_FIPS_ENDPOINT: isTrue,
}

export const AWS_ENDPOINTS: readonly string[] = Object.keys(awsEndpoints)

/** The variables of `davit controller` and `davit api`. The values of the chart are generated from them as well. */
export const processVariables = z.object({
  KUBECONFIG: z.string().optional(),
  DAVIT_NAMESPACE: matching(DNS_LABEL, 'must be a valid namespace name').default('davit-system'),
  DAVIT_REPLICA: matching(DNS_LABEL, 'must be at most 63 lowercase letters, digits and dashes').optional(),
  DAVIT_ALLOWED_NETWORKS: networks,
  DAVIT_DENIED_NETWORKS: networks,
  DAVIT_ALLOWED_HOSTS: hostNames,
  DAVIT_API_ADDRESS: address(8080),
  DAVIT_API_CERTIFICATE_FILE: z.string().optional(),
  DAVIT_API_KEY_FILE: z.string().optional(),
  DAVIT_OPS_ADDRESS: address(9090),
  DAVIT_LOG_LEVEL: z.enum(['info', 'warn', 'error'], 'must be info, warn or error').default('info'),
  DAVIT_SMTP_URL: smtpUrl.optional(),
  DAVIT_SMTP_FROM: matching(
    MAILBOX,
    'must be an email address, such as davit@example.com or Davit <davit@example.com>',
  ).optional(),
  DAVIT_SMTP_EHLO_NAME: matching(
    EHLO_NAME,
    'must be a host name with a dot, such as davit.example.com, or an address in brackets, such as [192.0.2.1] or [IPv6:2001:db8::1]',
  ).optional(),
  DAVIT_EXTRA_CA_FILE: z.string().optional(),
  DAVIT_WAIT_SCALE: waitScale,
  DAVIT_OMITTED_EVENT_TYPES: someOf(platformEventTypes),
  DAVIT_RETENTION_SUCCEEDED: duration('1s', '8760h', '24h'),
  DAVIT_RETENTION_FAILED: duration('1s', '8760h', '168h'),
  DAVIT_MAX_FINISHED_PER_ENDPOINT: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_FINISHED_BYTES: size('1Mi', '64Gi', '200Mi'),
  DAVIT_MAX_LOG_BYTES: size('1Mi', '8Gi', '256Mi'),
  DAVIT_MAX_PENDING: integer(1, 10_000_000, 200_000),
  DAVIT_MAX_PENDING_PER_ORGANIZATION: integer(1, 10_000_000, 20_000),
  DAVIT_MAX_OPEN_BYTES: size('1Mi', '64Gi', '192Mi'),
  DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION: size('1Mi', '64Gi', '64Mi'),
  DAVIT_MAX_WRITTEN_BYTES: size('1Mi', '64Gi', '576Mi'),
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: size('1Mi', '64Gi', '384Mi'),
  DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: integer(1, 100_000, 500),
  DAVIT_MAX_IN_FLIGHT: integer(1, 65_536, 2048),
  DAVIT_MAX_PAYLOAD_BYTES: size('1Mi', '8Gi', '128Mi'),
  DAVIT_VIEWS_PER_SECOND: integer(0, 1000, 15),
  DAVIT_MAX_REQUESTS_PER_KEY: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_CONNECTIONS: integer(10, 100_000, 2_000),
  DAVIT_MAX_SHOWN_DELIVERIES: integer(1, 100_000_000, 2_000_000),
  DAVIT_MAX_IDEMPOTENCY_KEYS: integer(1, 10_000_000, 500_000),
  DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION: integer(1, 10_000_000, 100_000),
  DAVIT_PARAMETER_PREFIX: parameterPrefix.default('/davit'),
  DAVIT_FORMER_ORGANIZATION_UIDS: formerUids,
  DAVIT_OPERATOR_PRINCIPAL_ARN: principalArn.optional(),
  DAVIT_REQUIRE_WRITE_ONLY: yesOrNo.default(false),
  DAVIT_CLOUD_WRITES_PER_SECOND: integer(1, 1000, 3),
  DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION: integer(1, 5000, 500),
  DAVIT_ACCOUNT_CHECK_INTERVAL: duration('1m', '24h', '1h'),
  DAVIT_DRIFT_CHECK_INTERVAL: duration('1m', '24h', '15m'),
  DAVIT_BAKE_IMAGE: matching(BAKE_IMAGE, 'must be an image reference').optional(),
  DAVIT_BAKE_DEADLINE: duration('1m', '12h', '1h'),
  DAVIT_BAKE_TTL: duration('1h', '168h', '1h'),
  DAVIT_BAKE_CPU: quantity('CPU', '500m').default('500m'),
  DAVIT_BAKE_MEMORY: quantity('memory', '512Mi').default('512Mi'),
  DAVIT_BAKE_SCRATCH: quantity('storage', '20Gi').default('20Gi'),
  ...bakePodVariables,
  DAVIT_BAKE_REALMS: hosts,
  DAVIT_BAKE_CA_CONFIG_MAP: configMapKey.optional(),
  DAVIT_MAX_TEMPLATES_PER_ORGANIZATION: integer(1, 100_000, 500),
  DAVIT_MAX_BAKES: integer(1, 10_000, 50),
  DAVIT_MAX_BAKES_PER_ORGANIZATION: integer(1, 10_000, 5),
  ...awsEndpoints,
  DAVIT_LEASE_DURATION: duration('3s', '5m', '9s'),
  DAVIT_SHUTDOWN_TIMEOUT: duration('0s', '1h', '25s'),
  DAVIT_SHUTDOWN_DELAY: duration('0s', '1h', '5s'),
})

/** The limit of one organization must not exceed the limit of all. */
const SHARES = [
  ['DAVIT_MAX_PENDING_PER_ORGANIZATION', 'DAVIT_MAX_PENDING'],
  ['DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION', 'DAVIT_MAX_OPEN_BYTES'],
  ['DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION', 'DAVIT_MAX_WRITTEN_BYTES'],
  ['DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION', 'DAVIT_MAX_IDEMPOTENCY_KEYS'],
  ['DAVIT_MAX_BAKES_PER_ORGANIZATION', 'DAVIT_MAX_BAKES'],
] as const

const settings = processVariables
  .refine((env) => env.DAVIT_SMTP_URL === undefined || env.DAVIT_SMTP_FROM !== undefined, {
    path: ['DAVIT_SMTP_FROM'],
    error: 'must be set if DAVIT_SMTP_URL is set',
    when: () => true,
  })
  .check(({ value: env, issues }) => {
    if ((env.DAVIT_API_CERTIFICATE_FILE === undefined) !== (env.DAVIT_API_KEY_FILE === undefined)) {
      const lacking =
        env.DAVIT_API_KEY_FILE === undefined ? 'DAVIT_API_KEY_FILE' : 'DAVIT_API_CERTIFICATE_FILE'
      issues.push({
        code: 'custom',
        input: undefined,
        path: [lacking],
        message: 'must be set as well: TLS requires both files',
      })
    }
    for (const [share, all] of SHARES) {
      if (!(env[share] > env[all])) continue
      issues.push({
        code: 'custom',
        input: env[share],
        path: [share],
        message: `must not be more than ${all}`,
      })
    }
  })
  .transform((env) => ({
    config: {
      /** Davit's own namespace. */
      namespace: env.DAVIT_NAMESPACE,
      /** The name of this replica, unique among those that run. */
      replica: env.DAVIT_REPLICA ?? replicaNameFromHost(hostname()),
      /** A given name belongs to one process at a time. Host names do not: two processes may run on a host, and names are cut. */
      isReplicaGiven: env.DAVIT_REPLICA !== undefined,
      /** Absent in a cluster, where the ServiceAccount of the pod is used. */
      kubeconfig: env.KUBECONFIG,
      /** `allowed`: CIDRs that webhooks may reach although they are not public, and by plain http. `closed`: those that they never reach. */
      networks: {
        allowed: env.DAVIT_ALLOWED_NETWORKS,
        denied: env.DAVIT_DENIED_NETWORKS,
        /** Names of hosts that webhooks may reach at private addresses, and by plain http. */
        hosts: env.DAVIT_ALLOWED_HOSTS,
      },
      api: {
        address: env.DAVIT_API_ADDRESS,
        /** Absent for plain http. */
        certificate: certificateFiles(env.DAVIT_API_CERTIFICATE_FILE, env.DAVIT_API_KEY_FILE),
        /** Requests per second. */
        rate: { key: env.DAVIT_MAX_REQUESTS_PER_KEY, organization: env.DAVIT_MAX_REQUESTS_PER_ORGANIZATION },
        maxConnections: env.DAVIT_MAX_CONNECTIONS,
        /** Deliveries in the index. */
        maxDeliveries: env.DAVIT_MAX_SHOWN_DELIVERIES,
        idempotencyKeys: {
          organization: env.DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION,
          all: env.DAVIT_MAX_IDEMPOTENCY_KEYS,
        },
        /** How long a stop still accepts connections. The rest of the drain time is for the requests that run then. */
        lingerMs: Math.min(env.DAVIT_SHUTDOWN_DELAY, env.DAVIT_SHUTDOWN_TIMEOUT / 2),
      },
      /** The address of metrics and health. */
      ops: env.DAVIT_OPS_ADDRESS,
      logLevel: env.DAVIT_LOG_LEVEL,
      smtpFrom: env.DAVIT_SMTP_FROM,
      /** What Davit calls itself to the mail server. Default: the domain of the sender. */
      smtpEhloName: env.DAVIT_SMTP_EHLO_NAME,
      /** PEM file of certificate authorities to trust in addition to the known ones. */
      extraCaFile: env.DAVIT_EXTRA_CA_FILE,
      /** Factor on the documented retry waits; 1 except in demonstrations. */
      waitScale: env.DAVIT_WAIT_SCALE,
      /** Whether missing built-in event types are created. */
      omittedEventTypes: env.DAVIT_OMITTED_EVENT_TYPES,
      retention: {
        succeededMs: env.DAVIT_RETENTION_SUCCEEDED,
        failedMs: env.DAVIT_RETENTION_FAILED,
        /** Finished WebhookDeliveries to keep. */
        maxFinishedPerEndpoint: env.DAVIT_MAX_FINISHED_PER_ENDPOINT,
        maxFinishedBytes: env.DAVIT_MAX_FINISHED_BYTES,
        maxLogBytes: env.DAVIT_MAX_LOG_BYTES,
      },
      /** New events wait beyond these limits. */
      intake: {
        pending: { organization: env.DAVIT_MAX_PENDING_PER_ORGANIZATION, all: env.DAVIT_MAX_PENDING },
        openBytes: {
          organization: env.DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION,
          all: env.DAVIT_MAX_OPEN_BYTES,
        },
        /** Per ten minutes. */
        writtenBytes: {
          organization: env.DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION,
          all: env.DAVIT_MAX_WRITTEN_BYTES,
        },
      },
      /** UIDs of organizations that a restore re-created, each with the UID that its account knows. */
      formerOrganizations: env.DAVIT_FORMER_ORGANIZATION_UIDS,
      /** The cloud accounts of organizations. */
      cloud: {
        parameterPrefix: env.DAVIT_PARAMETER_PREFIX,
        /** Davit's own identity, as trust policies name it. Default: what STS returns. */
        principalArn: env.DAVIT_OPERATOR_PRINCIPAL_ARN,
        /** Whether an account is rejected if its role can read what it writes. */
        requireWriteOnly: env.DAVIT_REQUIRE_WRITE_ONLY,
        /** Per account and region. */
        writesPerSecond: env.DAVIT_CLOUD_WRITES_PER_SECOND,
        credentialsPerOrganization: env.DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION,
        accountCheckMs: env.DAVIT_ACCOUNT_CHECK_INTERVAL,
        driftCheckMs: env.DAVIT_DRIFT_CHECK_INTERVAL,
      },
      bake: {
        /** Absent to bake nothing. */
        image: env.DAVIT_BAKE_IMAGE,
        deadlineSeconds: env.DAVIT_BAKE_DEADLINE / 1000,
        ttlSeconds: env.DAVIT_BAKE_TTL / 1000,
        cpu: env.DAVIT_BAKE_CPU,
        memory: env.DAVIT_BAKE_MEMORY,
        /** Disk for images that go into no volume claim. */
        scratch: env.DAVIT_BAKE_SCRATCH,
        imagePullPolicy: env.DAVIT_BAKE_IMAGE_PULL_POLICY,
        imagePullSecrets: env.DAVIT_BAKE_IMAGE_PULL_SECRETS,
        podSecurityContext: env.DAVIT_BAKE_POD_SECURITY_CONTEXT,
        nodeSelector: env.DAVIT_BAKE_NODE_SELECTOR,
        tolerations: env.DAVIT_BAKE_TOLERATIONS,
        affinity: env.DAVIT_BAKE_AFFINITY,
        priorityClassName: env.DAVIT_BAKE_PRIORITY_CLASS,
        podLabels: env.DAVIT_BAKE_POD_LABELS,
        podAnnotations: env.DAVIT_BAKE_POD_ANNOTATIONS,
        /** Token endpoints to allow in addition to the registries themselves. */
        realms: env.DAVIT_BAKE_REALMS,
        /** ConfigMap in every organization, with certificate authorities to trust in addition to the known ones. */
        ca: env.DAVIT_BAKE_CA_CONFIG_MAP,
        /** Variables of the pods, as this process has them. */
        awsEndpoints: z.object(awsEndpoints).parse(env),
        /** Per organization; templates beyond are not baked. */
        maxTemplates: env.DAVIT_MAX_TEMPLATES_PER_ORGANIZATION,
        /** Bakes at a time. */
        limits: { organization: env.DAVIT_MAX_BAKES_PER_ORGANIZATION, all: env.DAVIT_MAX_BAKES },
      },
      limits: {
        endpointsPerOrganization: env.DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION,
        /** Attempts at a time. */
        inFlight: env.DAVIT_MAX_IN_FLIGHT,
        /** Bytes of bodies to keep in memory; less where the heap is small. */
        payloadBytes: env.DAVIT_MAX_PAYLOAD_BYTES,
        /** Objects per second for deliveries that succeeded at once, of all controllers together. */
        viewsPerSecond: env.DAVIT_VIEWS_PER_SECOND,
      },
      /** A replica counts as dead after this long without renewing its Lease. */
      leaseMs: env.DAVIT_LEASE_DURATION,
      /** How long a stop waits for attempts or requests in flight. */
      drainMs: env.DAVIT_SHUTDOWN_TIMEOUT,
    },
    secrets: { smtpUrl: env.DAVIT_SMTP_URL },
  }))

function certificateFiles(certFile: string | undefined, keyFile: string | undefined) {
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile }
}

/** Their values are never printed. An AWS endpoint with a password is rejected, and must not be printed for it. */
const SECRET_VARIABLES: ReadonlySet<string> = new Set(['DAVIT_SMTP_URL', ...AWS_ENDPOINTS])

/** Variables that Kubernetes adds to pods for a Service whose name starts with `davit`. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/

function parseSettings(environment: Environment): z.infer<typeof settings> {
  const given = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
  )
  const parsed = settings.safeParse(Object.fromEntries(given))
  const mistakes = [
    ...unknownVariables(given),
    ...(parsed.success ? [] : mistakesOf(parsed.error, environment)),
  ]
  if (parsed.success && mistakes.length === 0) return parsed.data
  throw new ConfigError(mistakes)
}

function unknownVariables(given: readonly [string, string][]): ConfigMistake[] {
  const known = Object.keys(processVariables.shape)
  return given
    .map(([name]) => name)
    .filter((name) => name.startsWith('DAVIT_') && !known.includes(name) && !SERVICE_LINK.test(name))
    .map((variable) => ({
      variable,
      allowed: `is not a setting; valid settings are ${known.filter((name) => name.startsWith('DAVIT_')).join(', ')}`,
    }))
}

function mistakesOf(error: z.ZodError, environment: Environment): ConfigMistake[] {
  return error.issues.map((issue) => {
    const variable = String(issue.path[0])
    const value = environment[variable]
    const isPrintable = value !== undefined && value !== '' && !SECRET_VARIABLES.has(variable)
    return {
      variable,
      ...(isPrintable ? { given: JSON.stringify(value.slice(0, 200)) } : {}),
      allowed: issue.message,
    }
  })
}

/** Reads the variables of one command; empty ones count as absent. @throws ConfigError with every mistake */
export function parseVariables<Schema extends z.ZodObject>(
  schema: Schema,
  environment: Environment,
): z.output<Schema> {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value))
  const { data, error } = schema.safeParse(given)
  if (data) return data
  throw new ConfigError(
    (error?.issues ?? []).map(({ path, message }) => ({ variable: String(path[0]), allowed: message })),
  )
}

const url = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })

/** The variables of `davit receiver`. */
export const receiverVariables = z.object({
  DAVIT_RECEIVER_ADDRESS: address(8080),
  DAVIT_RECEIVER_SECRETS: z
    .string()
    .startsWith('/', 'must be an absolute path')
    .default('/etc/davit/signing-secret'),
})

/** @throws ConfigError with every mistake */
export function parseReceiverConfig(environment: Environment) {
  const data = parseVariables(receiverVariables, environment)
  return {
    address: data.DAVIT_RECEIVER_ADDRESS,
    /** Where the Secret with the signing secrets of an endpoint is mounted. */
    secretsFolder: data.DAVIT_RECEIVER_SECRETS,
  }
}

/** The variables of `davit check`. */
export const checkVariables = z.object({
  DAVIT_CHECK_READY: z
    .string('must be set')
    .transform((text) => text.split(','))
    .pipe(z.array(url).min(1).max(10)),
  DAVIT_CHECK_API: url.optional(),
  DAVIT_CHECK_TOKEN_FILE: z.string().startsWith('/', 'must be an absolute path').optional(),
  DAVIT_CHECK_ORGANIZATION: z.string().min(1).max(63).default('default'),
  DAVIT_CHECK_DELIVERY_URL: url.optional(),
  DAVIT_CHECK_DELIVERY_ADDRESS: address(8080),
  DAVIT_CHECK_TIMEOUT: duration('1s', '1h', '1m'),
})

export type CheckConfig = ReturnType<typeof parseCheckConfig>

/** @throws ConfigError with every mistake */
export function parseCheckConfig(environment: Environment) {
  const data = parseVariables(checkVariables, environment)
  return {
    /** Readiness URLs. */
    ready: data.DAVIT_CHECK_READY,
    /** The REST API, without a path. Absent if it is not checked. */
    api: data.DAVIT_CHECK_API?.replace(/\/+$/, ''),
    /** A file with an API token, without permissions unless a delivery is checked. */
    tokenFile: data.DAVIT_CHECK_TOKEN_FILE,
    /** The organization to check a delivery in; otherwise a name that no organization has. */
    organization: data.DAVIT_CHECK_ORGANIZATION,
    /** Where to receive a delivery, and the URL at which the controller reaches it. */
    delivery:
      data.DAVIT_CHECK_DELIVERY_URL === undefined
        ? undefined
        : { url: data.DAVIT_CHECK_DELIVERY_URL, address: data.DAVIT_CHECK_DELIVERY_ADDRESS },
    limitMs: data.DAVIT_CHECK_TIMEOUT,
  }
}

const name = matching(DNS_LABEL, 'must be a valid Kubernetes name')

/** The variables of `davit stop` and `davit cleanup`: what belongs to the release. */
export const uninstallVariables = z.object({
  DAVIT_RELEASE: matching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'must be a valid label value'),
  DAVIT_RELEASE_DEPLOYMENTS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(z.array(name).max(10)),
  DAVIT_RELEASE_TIMEOUT: duration('1s', '2h', '2m'),
})

export function withoutUninstallVariables(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([key]) => !Object.hasOwn(uninstallVariables.shape, key)),
  )
}

/** @throws ConfigError with every mistake */
export function parseUninstallConfig(environment: Environment) {
  const data = parseVariables(uninstallVariables, environment)
  return {
    /** Selects the pods of both roles. */
    podSelector: `app.kubernetes.io/name=davit,app.kubernetes.io/instance=${data.DAVIT_RELEASE},app.kubernetes.io/component in (controller,api)`,
    deployments: data.DAVIT_RELEASE_DEPLOYMENTS,
    limitMs: data.DAVIT_RELEASE_TIMEOUT,
  }
}

const path = z.string().regex(/^\/[^:\0]*$/, 'must be an absolute path without colons')

/** The variables of `davit bake`, which runs in a pod of an organization. */
export const bakeVariables = z.object({
  DAVIT_TMPFS: path.default(TMPFS_PATH),
  DAVIT_SCRATCH: path.default(OUTPUT_PATH),
  DAVIT_TERMINATION_LOG: path.default('/dev/termination-log'),
  DAVIT_EXTRA_CA_FILE: z.string().optional(),
  DAVIT_LOG_LEVEL: z.enum(['info', 'warn', 'error'], 'must be info, warn or error').default('info'),
})

export type BakeConfig = ReturnType<typeof parseBakeConfig>

/** Where programs and trusted authorities are; no identity and no secret. */
const FOR_THE_TOOL = ['PATH', 'SSL_CERT_FILE', 'SSL_CERT_DIR'] as const

const orderAsJson = z
  .string()
  .default('')
  .transform((text, context) => {
    const refuse = (message: string) => {
      context.addIssue({ code: 'custom', message })
      return z.NEVER
    }
    if (Buffer.byteLength(text) > MAX_ORDER_BYTES) return refuse(`must be at most ${MAX_ORDER_BYTES} bytes`)
    let order: unknown
    try {
      order = JSON.parse(text)
    } catch {
      return refuse('must be a bake order as JSON')
    }
    const { data, error } = bakeOrder.safeParse(order)
    if (data) return data
    const [issue] = error.issues
    return refuse(`must be a valid bake order: ${issue?.path.join('.')}: ${issue?.message}`)
  })

/** @throws ConfigError with every mistake */
export function parseBakeConfig(environment: Environment) {
  const data = parseVariables(bakeVariables.extend({ [ORDER_VARIABLE]: orderAsJson }), environment)
  const tool = FOR_THE_TOOL.flatMap((name) => (environment[name] ? [[name, environment[name]] as const] : []))
  return {
    order: data[ORDER_VARIABLE],
    /** A folder in memory. */
    memory: data.DAVIT_TMPFS,
    /** A folder on disk, for images that are only pulled and verified. */
    scratch: data.DAVIT_SCRATCH,
    /** Read by kubelet when the container has ended. */
    terminationLog: data.DAVIT_TERMINATION_LOG,
    extraCaFile: data.DAVIT_EXTRA_CA_FILE,
    logLevel: data.DAVIT_LOG_LEVEL,
    /** The environment of the tool. */
    tool: Object.fromEntries(tool) as Record<string, string>,
  }
}
