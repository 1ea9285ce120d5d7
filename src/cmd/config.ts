import { hostname } from 'node:os'
import { z } from 'zod'
import {
  type BakeOrder,
  bakeOrder,
  MAX_ORDER_BYTES,
  ORDER_VARIABLE,
  OUTPUT_PATH,
  TMPFS_PATH,
} from '../apis/bake.ts'
import {
  address,
  BAKE_IMAGE,
  configMapKey,
  DNS_LABEL,
  endpointUrl,
  formerUids,
  hosts,
  integer,
  MAILBOX,
  matching,
  networks,
  parameterPrefix,
  principalArn,
  quantity,
  replicaNameFromHost,
  smtpUrl,
  waitScale,
  yesOrNo,
} from './config-values.ts'

/** Settings of the controller for the Jobs of bakes, and what of its own environment it hands on to them. */

const DAY_SECONDS = 24 * 3600

const isTrue = matching(/^(true|false)$/, 'must be true or false')
  .meta({ type: 'boolean' })
  .optional()
const endpoint = endpointUrl.optional()

/** Where AWS is, as its SDK reads it: no more than the services that a bake calls. */
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

export const bakeJobVariables = {
  DAVIT_BAKE_IMAGE: matching(BAKE_IMAGE, 'must be a reference to an image').optional(),
  DAVIT_BAKE_DEADLINE_SECONDS: integer(60, 12 * 3600, 3600),
  DAVIT_BAKE_TTL_SECONDS: integer(3600, 7 * DAY_SECONDS, 3600),
  DAVIT_BAKE_CPU: quantity('CPU', '500m').default('500m'),
  DAVIT_BAKE_MEMORY: quantity('memory', '512Mi').default('512Mi'),
  DAVIT_BAKE_SCRATCH: quantity('a size', '20Gi').default('20Gi'),
  DAVIT_BAKE_REALMS: hosts,
  DAVIT_BAKE_CA_CONFIG_MAP: configMapKey.optional(),
  DAVIT_MAX_TEMPLATES_PER_ORGANIZATION: integer(1, 100_000, 500),
  DAVIT_MAX_BAKES: integer(1, 10_000, 50),
  DAVIT_MAX_BAKES_PER_ORGANIZATION: integer(1, 10_000, 5),
  ...awsEndpoints,
}

const bakeJobsSchema = z.object(bakeJobVariables)

export function bakeJobConfig(env: z.infer<typeof bakeJobsSchema>) {
  return {
    /** Absent: nothing is baked. */
    image: env.DAVIT_BAKE_IMAGE,
    deadlineSeconds: env.DAVIT_BAKE_DEADLINE_SECONDS,
    ttlSeconds: env.DAVIT_BAKE_TTL_SECONDS,
    cpu: env.DAVIT_BAKE_CPU,
    memory: env.DAVIT_BAKE_MEMORY,
    /** Room for images where they go into no claim. */
    scratch: env.DAVIT_BAKE_SCRATCH,
    /** Hosts that may ask for a login besides the registries themselves. */
    realms: env.DAVIT_BAKE_REALMS,
    /** Who is trusted besides the known ones: a ConfigMap in every organization. */
    ca: env.DAVIT_BAKE_CA_CONFIG_MAP,
    /** Variables of the pods, as this process has them itself. */
    awsEndpoints: z.object(awsEndpoints).parse(env),
    /** Of one organization; those beyond are not baked. */
    maxTemplates: env.DAVIT_MAX_TEMPLATES_PER_ORGANIZATION,
    /** Under way at a time. */
    limits: { organization: env.DAVIT_MAX_BAKES_PER_ORGANIZATION, all: env.DAVIT_MAX_BAKES },
  }
}

/**
 * Settings, from the environment: the only file that reads it. Every mistake is reported at once, unknown
 * DAVIT_ processVariables included, so that a typing error does not silently leave a default in force.
 */

/**
 * Libraries of the REST API print the requests that they get where it is set. They read it when they are loaded, which is after
 * this file.
 */
delete process.env.DEBUG

export type Environment = Readonly<Record<string, string | undefined>>

export type Config = z.infer<typeof settings>['config']

/** Kept apart so that the configuration can be logged. */
export type Secrets = z.infer<typeof settings>['secrets']

/** `given` is absent for secrets. */
export type ConfigMistake = { variable: string; given?: string; allowed: string }

/** The start stops with this. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly mistakes: readonly ConfigMistake[]

  constructor(mistakes: readonly ConfigMistake[]) {
    const lines = mistakes.map(({ variable, given, allowed }) =>
      given === undefined ? `${variable}: ${allowed}` : `${variable}=${given}: ${allowed}`,
    )
    super(`the configuration has ${mistakes.length} mistake(s):\n  ${lines.join('\n  ')}`)
    this.mistakes = mistakes
  }
}

/** The environment of this process. */
export function readEnvironment(): Environment {
  return process.env
}

/** @throws ConfigError with every mistake, those in secrets included */
export function parseConfig(environment: Environment): Config {
  return parseSettings(environment).config
}

/** @throws ConfigError as `parseConfig` */
export function parseSecrets(environment: Environment): Secrets {
  return parseSettings(environment).secrets
}

const MIB = 1024 * 1024
const YEAR_SECONDS = 365 * DAY_SECONDS

/** Each variable; the chart's values are made of them as well. */
export const processVariables = z.object({
  KUBECONFIG: z.string().optional(),
  DAVIT_NAMESPACE: matching(DNS_LABEL, 'must be the name of a namespace').default('davit-system'),
  DAVIT_REPLICA: matching(
    DNS_LABEL,
    'must be lower-case letters, digits and dashes, at most 63 characters',
  ).optional(),
  DAVIT_ALLOWED_NETWORKS: networks,
  DAVIT_CLOSED_NETWORKS: networks,
  DAVIT_API_ADDRESS: address(8080),
  DAVIT_API_CERTIFICATE_FILE: z.string().optional(),
  DAVIT_API_KEY_FILE: z.string().optional(),
  DAVIT_OPS_ADDRESS: address(9090),
  DAVIT_LOG_LEVEL: z.enum(['info', 'warn', 'error'], 'must be info, warn or error').default('info'),
  DAVIT_SMTP_URL: smtpUrl.optional(),
  DAVIT_SMTP_FROM: matching(
    MAILBOX,
    'must be an e-mail address, such as davit@example.com or Davit <davit@example.com>',
  ).optional(),
  DAVIT_EXTRA_CA_FILE: z.string().optional(),
  DAVIT_WAIT_SCALE: waitScale,
  DAVIT_SHIPPED_EVENT_TYPES: yesOrNo.default(true),
  DAVIT_RETENTION_SUCCEEDED_SECONDS: integer(1, YEAR_SECONDS, 86_400),
  DAVIT_RETENTION_FAILED_SECONDS: integer(1, YEAR_SECONDS, 604_800),
  DAVIT_MAX_FINISHED_PER_ENDPOINT: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_FINISHED: integer(1, 10_000_000, 200_000),
  DAVIT_MAX_LOG_BYTES: integer(MIB, 8192 * MIB, 256 * MIB),
  DAVIT_MAX_PENDING: integer(1, 10_000_000, 200_000),
  DAVIT_MAX_PENDING_PER_ORGANIZATION: integer(1, 10_000_000, 20_000),
  DAVIT_MAX_HELD_BYTES_PER_ORGANIZATION: integer(MIB, 8192 * MIB, 64 * MIB),
  DAVIT_MAX_WRITTEN_BYTES: integer(MIB, 65_536 * MIB, 1024 * MIB),
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: integer(MIB, 65_536 * MIB, 512 * MIB),
  DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: integer(1, 100_000, 500),
  DAVIT_MAX_IN_FLIGHT: integer(1, 65_536, 2048),
  DAVIT_MAX_REQUESTS_PER_KEY: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: integer(1, 1_000_000, 10_000),
  DAVIT_MAX_SHOWN_DELIVERIES: integer(1, 100_000_000, 2_000_000),
  DAVIT_MAX_IDEMPOTENCY_KEYS: integer(1, 10_000_000, 500_000),
  DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION: integer(1, 10_000_000, 100_000),
  DAVIT_PARAMETER_PREFIX: parameterPrefix.default('/davit'),
  DAVIT_FORMER_ORGANIZATION_UIDS: formerUids,
  DAVIT_OPERATOR_PRINCIPAL_ARN: principalArn.optional(),
  DAVIT_REQUIRE_WRITE_ONLY: yesOrNo.default(false),
  DAVIT_CLOUD_WRITES_PER_SECOND: integer(1, 1000, 3),
  DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION: integer(1, 5000, 500),
  DAVIT_ACCOUNT_CHECK_SECONDS: integer(60, DAY_SECONDS, 3600),
  DAVIT_DRIFT_CHECK_SECONDS: integer(60, DAY_SECONDS, 900),
  ...bakeJobVariables,
  DAVIT_LEASE_SECONDS: integer(3, 300, 9),
  DAVIT_DRAIN_SECONDS: integer(0, 3600, 25),
  DAVIT_LINGER_SECONDS: integer(0, 3600, 5),
})

/** What one organization may have of what all may have. */
const SHARES = [
  ['DAVIT_MAX_PENDING_PER_ORGANIZATION', 'DAVIT_MAX_PENDING'],
  ['DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION', 'DAVIT_MAX_WRITTEN_BYTES'],
  ['DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION', 'DAVIT_MAX_IDEMPOTENCY_KEYS'],
  ['DAVIT_MAX_BAKES_PER_ORGANIZATION', 'DAVIT_MAX_BAKES'],
] as const

const settings = processVariables
  .refine((env) => env.DAVIT_SMTP_URL === undefined || env.DAVIT_SMTP_FROM !== undefined, {
    path: ['DAVIT_SMTP_FROM'],
    error: 'must be set where DAVIT_SMTP_URL is',
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
        message: 'must be set as well: TLS needs both files',
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
      /** The operator's own namespace. */
      namespace: env.DAVIT_NAMESPACE,
      /** Name of this replica, unique among those that run. */
      replica: env.DAVIT_REPLICA ?? replicaNameFromHost(hostname()),
      /** Then it is one process's at a time; two may run on one host, and names of hosts are cut. */
      isReplicaGiven: env.DAVIT_REPLICA !== undefined,
      /** Absent: in a cluster, with the pod's ServiceAccount. */
      kubeconfig: env.KUBECONFIG,
      /** CIDRs that webhooks may reach although they are not public, and by plain http; and those that they never reach. */
      networks: { allowed: env.DAVIT_ALLOWED_NETWORKS, closed: env.DAVIT_CLOSED_NETWORKS },
      api: {
        /** Where the REST API is served. */
        address: env.DAVIT_API_ADDRESS,
        /** Absent: it is served by plain http. */
        certificate: certificateFiles(env.DAVIT_API_CERTIFICATE_FILE, env.DAVIT_API_KEY_FILE),
        /** Requests a second. */
        rate: { key: env.DAVIT_MAX_REQUESTS_PER_KEY, organization: env.DAVIT_MAX_REQUESTS_PER_ORGANIZATION },
        /** Deliveries that its log shows. */
        maxShown: env.DAVIT_MAX_SHOWN_DELIVERIES,
        idempotencyKeys: {
          organization: env.DAVIT_MAX_IDEMPOTENCY_KEYS_PER_ORGANIZATION,
          all: env.DAVIT_MAX_IDEMPOTENCY_KEYS,
        },
        /** How long of a stop new connections are still taken; the rest of it is for what runs then. */
        lingerMs: Math.min(env.DAVIT_LINGER_SECONDS, env.DAVIT_DRAIN_SECONDS / 2) * 1000,
      },
      /** Where metrics and health are served. */
      ops: env.DAVIT_OPS_ADDRESS,
      logLevel: env.DAVIT_LOG_LEVEL,
      smtpFrom: env.DAVIT_SMTP_FROM,
      /** PEM file of certificate authorities trusted besides the known ones. */
      extraCaFile: env.DAVIT_EXTRA_CA_FILE,
      /** Factor on the documented waits; 1 but in demonstrations. */
      waitScale: env.DAVIT_WAIT_SCALE,
      /** Event types that ship are made where they are missing. */
      shippedEventTypes: env.DAVIT_SHIPPED_EVENT_TYPES,
      retention: {
        succeededMs: env.DAVIT_RETENTION_SUCCEEDED_SECONDS * 1000,
        failedMs: env.DAVIT_RETENTION_FAILED_SECONDS * 1000,
        /** Finished delivery objects kept. */
        maxFinishedPerEndpoint: env.DAVIT_MAX_FINISHED_PER_ENDPOINT,
        maxFinished: env.DAVIT_MAX_FINISHED,
        maxLogBytes: env.DAVIT_MAX_LOG_BYTES,
      },
      /** Beyond these new events wait. */
      intake: {
        pending: { organization: env.DAVIT_MAX_PENDING_PER_ORGANIZATION, all: env.DAVIT_MAX_PENDING },
        heldBytes: env.DAVIT_MAX_HELD_BYTES_PER_ORGANIZATION,
        /** In ten minutes. */
        writtenBytes: {
          organization: env.DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION,
          all: env.DAVIT_MAX_WRITTEN_BYTES,
        },
      },
      /** UIDs of organizations that a restore has made anew, each with the one that it is known by in its account. */
      formerOrganizations: env.DAVIT_FORMER_ORGANIZATION_UIDS,
      /** The cloud accounts of organizations. */
      cloud: {
        /** Every parameter is under it. */
        parameterPrefix: env.DAVIT_PARAMETER_PREFIX,
        /** Davit's own identity, as a trust policy names it. Absent: what STS says of it. */
        principalArn: env.DAVIT_OPERATOR_PRINCIPAL_ARN,
        /** An account whose role can read what it writes is refused. */
        requireWriteOnly: env.DAVIT_REQUIRE_WRITE_ONLY,
        /** To one account in one region. */
        writesPerSecond: env.DAVIT_CLOUD_WRITES_PER_SECOND,
        credentialsPerOrganization: env.DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION,
        /** How often an account is tried again, and its parameters are listed. */
        accountCheckMs: env.DAVIT_ACCOUNT_CHECK_SECONDS * 1000,
        driftCheckMs: env.DAVIT_DRIFT_CHECK_SECONDS * 1000,
      },
      /** The Jobs of bakes. */
      bake: bakeJobConfig(env),
      limits: {
        endpointsPerOrganization: env.DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION,
        /** Attempts at a time. */
        inFlight: env.DAVIT_MAX_IN_FLIGHT,
      },
      /** How long a stop waits for attempts on the wire, or for requests that are being answered. */
      /** After so long without renewing its Lease a replica is taken for gone, milliseconds. */
      leaseMs: env.DAVIT_LEASE_SECONDS * 1000,
      drainMs: env.DAVIT_DRAIN_SECONDS * 1000,
    },
    secrets: { smtpUrl: env.DAVIT_SMTP_URL },
  }))

function certificateFiles(certFile: string | undefined, keyFile: string | undefined) {
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile }
}

/** What is never shown: an endpoint may be given with a password, and is refused for it. */
const SECRET_VARIABLES: ReadonlySet<string> = new Set(['DAVIT_SMTP_URL', ...AWS_ENDPOINTS])

/** What Kubernetes puts into pods for a Service whose name starts with `davit`: no settings of ours. */
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
      allowed: `is no setting; there are ${known.filter((name) => name.startsWith('DAVIT_')).join(', ')}`,
    }))
}

function mistakesOf(error: z.ZodError, environment: Environment): ConfigMistake[] {
  return error.issues.map((issue) => {
    const variable = String(issue.path[0])
    const value = environment[variable]
    const shown = value !== undefined && value !== '' && !SECRET_VARIABLES.has(variable)
    return {
      variable,
      ...(shown ? { given: JSON.stringify(value.slice(0, 200)) } : {}),
      allowed: issue.message,
    }
  })
}

/**
 * Those of a command that has settings of its own; an empty one counts as absent, and others are not looked at.
 * @throws ConfigError with every mistake
 */
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

/** Settings of `davit check`, the test of a release: where what it looks at is. */

const url = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })

export const checkVariables = z.object({
  DAVIT_CHECK_READY: z
    .string('is missing')
    .transform((text) => text.split(','))
    .pipe(z.array(url).min(1).max(10)),
  DAVIT_CHECK_API: url.optional(),
  DAVIT_CHECK_TOKEN_FILE: z.string().startsWith('/', 'must be an absolute path').optional(),
  DAVIT_CHECK_ORGANIZATION: z.string().min(1).max(63).default('default'),
  DAVIT_CHECK_SECONDS: integer(1, 3600, 60),
})

export type CheckConfig = {
  /** Answer 200 once what is behind them is ready. */
  ready: string[]
  /** The REST API, without a path; absent: it is not called. */
  api: string | undefined
  /** A file with a key for it, which may do nothing. */
  tokenFile: string | undefined
  /** A name that no organization has. */
  organization: string
  /** How long it may take until all is well. */
  limitMs: number
}

/** @throws ConfigError with every mistake */
export function parseCheckConfig(environment: Environment): CheckConfig {
  const data = parseVariables(checkVariables, environment)
  return {
    ready: data.DAVIT_CHECK_READY,
    api: data.DAVIT_CHECK_API?.replace(/\/+$/, ''),
    tokenFile: data.DAVIT_CHECK_TOKEN_FILE,
    organization: data.DAVIT_CHECK_ORGANIZATION,
    limitMs: data.DAVIT_CHECK_SECONDS * 1000,
  }
}

/** Settings of `davit stop` and `davit cleanup`, which the chart runs when it is uninstalled: what belongs to the release. */

const name = matching(DNS_LABEL, 'must be a name of Kubernetes')

export const uninstallVariables = z.object({
  DAVIT_RELEASE: matching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'must be the value of a label'),
  DAVIT_RELEASE_DEPLOYMENTS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((part) => part !== ''))
    .pipe(z.array(name).max(10)),
  DAVIT_RELEASE_SECONDS: integer(1, 7200, 120),
})

/** What other settings are read from. */
export function withoutUninstallVariables(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([key]) => !Object.hasOwn(uninstallVariables.shape, key)),
  )
}

export type UninstallConfig = {
  /** Of the pods of both roles. */
  podSelector: string
  deployments: string[]
  /** How long pods are waited for. */
  limitMs: number
}

/** @throws ConfigError with every mistake */
export function parseUninstallConfig(environment: Environment): UninstallConfig {
  const data = parseVariables(uninstallVariables, environment)
  return {
    podSelector: `app.kubernetes.io/name=davit,app.kubernetes.io/instance=${data.DAVIT_RELEASE},app.kubernetes.io/component in (controller,api)`,
    deployments: data.DAVIT_RELEASE_DEPLOYMENTS,
    limitMs: data.DAVIT_RELEASE_SECONDS * 1000,
  }
}

/** Settings of the pod of a bake, which has its own: nothing of the operator's. */

const path = z.string().regex(/^\/[^:\0]*$/, 'must be an absolute path without colons')

export const bakeVariables = z.object({
  DAVIT_TMPFS: path.default(TMPFS_PATH),
  DAVIT_SCRATCH: path.default(OUTPUT_PATH),
  DAVIT_TERMINATION_LOG: path.default('/dev/termination-log'),
  DAVIT_EXTRA_CA_FILE: z.string().optional(),
  DAVIT_LOG_LEVEL: z.enum(['info', 'warn', 'error'], 'must be info, warn or error').default('info'),
})

export type BakeConfig = {
  order: BakeOrder
  /** A folder in memory. */
  memory: string
  /** Where images go that are only pulled and verified: on a disk, where they are large. */
  scratch: string
  /** What its kubelet reads when the container has ended. */
  terminationLog: string
  /** PEM file of certificate authorities trusted besides the known ones. */
  extraCaFile: string | undefined
  logLevel: 'info' | 'warn' | 'error'
  /** What the tool may have of the environment. */
  tool: Record<string, string>
}

/** Where programs are, and who is trusted; nothing that is an identity or a secret. */
const FOR_THE_TOOL = ['PATH', 'SSL_CERT_FILE', 'SSL_CERT_DIR'] as const

/** @throws ConfigError with every mistake */
export function parseBakeConfig(environment: Environment): BakeConfig {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value))
  const parsed = bakeVariables.safeParse(given)
  const order = orderOf(environment[ORDER_VARIABLE] ?? '')
  if (!parsed.success || 'mistake' in order) {
    const issues = parsed.error?.issues ?? []
    const mistakes = issues.map(({ path: [name], message }) => ({ variable: String(name), allowed: message }))
    throw new ConfigError([...mistakes, ...('mistake' in order ? [order.mistake] : [])])
  }
  const { data } = parsed
  const tool = FOR_THE_TOOL.flatMap((name) => (given[name] ? [[name, given[name]] as const] : []))
  return {
    order: order.order,
    memory: data.DAVIT_TMPFS,
    scratch: data.DAVIT_SCRATCH,
    terminationLog: data.DAVIT_TERMINATION_LOG,
    extraCaFile: data.DAVIT_EXTRA_CA_FILE,
    logLevel: data.DAVIT_LOG_LEVEL,
    tool: Object.fromEntries(tool),
  }
}

function orderOf(text: string): { order: BakeOrder } | { mistake: ConfigMistake } {
  const mistake = (allowed: string) => ({ mistake: { variable: ORDER_VARIABLE, allowed } })
  if (Buffer.byteLength(text) > MAX_ORDER_BYTES) return mistake(`must have at most ${MAX_ORDER_BYTES} bytes`)
  let order: unknown
  try {
    order = JSON.parse(text)
  } catch {
    return mistake('must be the order of a bake as JSON')
  }
  const parsed = bakeOrder.safeParse(order)
  if (parsed.success) return { order: parsed.data }
  const [issue] = parsed.error.issues
  return mistake(`must be the order of a bake: ${issue?.path.join('.')}: ${issue?.message}`)
}
