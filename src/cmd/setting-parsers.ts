/** How the text of each kind of setting is parsed, with the message that says what is allowed. */
import { BlockList, isIP } from 'node:net'
import { z } from 'zod'
import {
  affinity,
  nodeSelector,
  objectName,
  podAnnotations,
  podLabels,
  podSecurityContext,
  pullPolicy,
  tolerations,
} from '../apis/bake-pod.ts'
import { tryParseJson } from '../lib/json.ts'

const PRINCIPAL_ARN = /^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)\/[A-Za-z0-9+=,.@_/-]{1,576}$/
export const MAILBOX = /^([^\p{Cc}<>@,;]{1,100} <[^\s<>@,;]+@[^\s<>@,;]+>|[^\s<>@,;]+@[^\s<>@,;]+)$/u

/** A host name with a dot, or an address in brackets (RFC 5321 §4.1.3): mail servers reject everything else that a client may call itself. */
export const EHLO_NAME =
  /^(?=.{1,253}$)(?:(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|\[(?:\d{1,3}(?:\.\d{1,3}){3}|IPv6:[0-9a-f:.]{2,45})\])$/i

/** JSON Schema of the chart value that becomes the text. */
type ChartValue = Readonly<Record<string, unknown>>

/** A list in the chart, separated by commas in the text. */
const LIST: ChartValue = { type: 'array', items: { type: 'string' } }

function setting<T>(allowed: string, parse: (text: string) => T | undefined, chart: ChartValue = {}) {
  return z
    .string()
    .transform((text, context) => {
      const value = parse(text)
      if (value !== undefined) return value
      context.addIssue({ code: 'custom', message: allowed })
      return z.NEVER
    })
    .meta(chart)
}

export function matching(pattern: RegExp, allowed: string) {
  return setting(allowed, (text) => (pattern.test(text) ? text : undefined))
}

export const principalArn = matching(
  PRINCIPAL_ARN,
  'must be the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/davit',
)

export function integer(min: number, max: number, standard: number) {
  const parse = (text: string) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : undefined
  }
  const chart = { type: 'integer', minimum: min, maximum: max }
  return setting(`must be a whole number from ${min} to ${max}`, parse, chart).default(standard)
}

const DURATION = /^(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,9})s)?$/

function durationMs(text: string): number {
  const [match, hours = 0, minutes = 0, seconds = 0] = DURATION.exec(text) ?? []
  if (!match) return Number.NaN
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
}

/** In milliseconds. Bounds and default are written like the setting, such as `1h30m`. */
export function duration(min: string, max: string, standard: string) {
  const parse = (text: string) => {
    const value = durationMs(text)
    return value >= durationMs(min) && value <= durationMs(max) ? value : undefined
  }
  const chart = { type: 'string', minLength: 2, pattern: DURATION.source }
  return setting(
    `must be a duration from ${min} to ${max}, such as 90s, 15m or 1h30m`,
    parse,
    chart,
  ).prefault(standard)
}

const SIZE = /^(\d{1,15})(Ki|Mi|Gi|Ti)?$/
const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 }

function sizeBytes(text: string): number {
  const [match, count, unit] = SIZE.exec(text) ?? []
  if (match === undefined) return Number.NaN
  return Number(count) * (unit === undefined ? 1 : UNITS[unit as keyof typeof UNITS])
}

/** In bytes. Bounds and default are written like the setting, such as `256Mi`. */
export function size(min: string, max: string, standard: string) {
  const parse = (text: string) => {
    const value = sizeBytes(text)
    return value >= sizeBytes(min) && value <= sizeBytes(max) ? value : undefined
  }
  const chart = { type: ['string', 'integer'], pattern: SIZE.source, minimum: sizeBytes(min) }
  return setting(
    `must be a size from ${min} to ${max}, such as 256Mi, or a number of bytes`,
    parse,
    chart,
  ).prefault(standard)
}

/** Without a trailing dot, and no address. */
const HOST =
  /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\.[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/

export const networks = setting(
  'must be comma-separated networks in CIDR notation, such as 10.0.0.0/8,fd00::/8 (IPv4 networks not as ::ffff:...)',
  (text) => {
    const found = text.split(',').map((network) => network.trim())
    return found.every(isNetwork) ? found : undefined
  },
  LIST,
).default([])

/** A list of some of `names`, without repetitions. */
export function someOf(names: readonly string[]) {
  return setting(
    `must be a comma-separated list of some of: ${names.join(', ')}`,
    (text) => {
      const found = new Set(text.split(',').map((name) => name.trim()))
      return [...found].every((name) => names.includes(name)) ? [...found] : undefined
    },
    { type: 'array', items: { type: 'string', enum: [...names] } },
  ).default([])
}

export const hostNames = setting(
  'must be names of hosts, separated by commas, such as receiver.acme.svc.cluster.local',
  (text) => {
    // A dot at the end only says that the name is complete.
    const found = text.split(',').map((name) => name.trim().toLowerCase().replace(/\.$/, ''))
    return found.every((name) => HOST.test(name)) ? found : undefined
  },
  LIST,
).default([])

const UID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const UID_PAIR = new RegExp(`^(${UID})=(${UID})$`)

export const formerUids = setting(
  'must be comma-separated pairs of UIDs in the form current=former',
  (text) => {
    const pairs = text.split(',').map((pair) => UID_PAIR.exec(pair.trim()))
    const found = pairs.flatMap((match) => (match?.[1] && match[2] ? [[match[1], match[2]] as const] : []))
    return found.length === pairs.length ? found : undefined
  },
  LIST,
).default([])

/** IPv4 addresses in IPv6 form. */
const MAPPED = new BlockList()
MAPPED.addSubnet('::ffff:0:0', 96, 'ipv6')

function isNetwork(text: string): boolean {
  const [address = '', bits = '', ...rest] = text.split('/')
  if (rest.length > 0 || !/^\d{1,3}$/.test(bits)) return false
  const family = isIP(address)
  if (address.includes('%') || family === 0 || Number(bits) > (family === 4 ? 32 : 128)) return false
  // In this form it would not match the IPv4 address.
  return family === 4 || !MAPPED.check(address, 'ipv6')
}

/** @param standard the port of the default, which listens on all addresses */
export function address(standard: number) {
  const examples = `0.0.0.0:${standard}, [::]:${standard} or localhost:${standard}`
  return setting(`must be an address and a port, such as ${examples}`, (text) => {
    const match = /^(?:\[([^\]]+)\]|([^:\s]+)):(\d{1,5})$/.exec(text)
    const port = Number(match?.[3])
    const host = match?.[1] ?? match?.[2] ?? ''
    const known = match?.[1] !== undefined ? isIP(host) === 6 : isIP(host) === 4 || host === 'localhost'
    return known && port <= 65_535 ? { host, port } : undefined
  }).default({ host: '0.0.0.0', port: standard })
}

export const waitScale = setting(
  'must be a number from 0.001 to 1',
  (text) => {
    const value = /^\d(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN
    return value >= 0.001 && value <= 1 ? value : undefined
  },
  { type: 'number', minimum: 0.001, maximum: 1 },
).default(1)

/** Rejects a query, which could switch certificate verification off. */
export const smtpUrl = setting(
  'must be smtp://host:port or smtps://host:port, optionally with percent-encoded user:password@ before the host, and nothing after the port',
  (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    const plain = url?.hostname && url.pathname.length <= 1 && url.search === '' && url.hash === ''
    return plain && /^smtps?:$/.test(url.protocol) && (url.username === '') === (url.password === '')
      ? text
      : undefined
  },
)

export const yesOrNo = setting(
  'must be true or false',
  (text) => (text === 'true' || text === 'false' ? text === 'true' : undefined),
  { type: 'boolean' },
)

/** Short enough for every parameter name. AWS reserves names that begin with aws or ssm. */
export const parameterPrefix = setting(
  'must be a path such as /davit or /platform/davit: at most 100 characters and at most 8 parts. Parts may contain letters, digits, dots, dashes and underscores; the first part must not begin with aws or ssm',
  (text) =>
    text.length <= 100 && /^(\/[A-Za-z0-9_.-]+){1,8}$/.test(text) && !/^\/(aws|ssm)/i.test(text)
      ? text
      : undefined,
)

export function quantity(what: string, example: string) {
  return matching(
    /^[1-9][0-9]{0,11}(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/,
    `must be a Kubernetes quantity of ${what}, such as ${example}`,
  )
}

/** An image reference without white space and scheme. Nodes check the rest. */
export const BAKE_IMAGE = /^(?!.*:\/\/)[A-Za-z0-9[][^\p{Cc}\p{Z}]{0,715}$/u

export const hosts = setting(
  'must be at most 64 comma-separated hosts, such as auth.example.com,tokens.example.com:8443',
  (text) => {
    const given = text.split(',').map((host) => host.trim().toLowerCase())
    const isHost = (host: string) => /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?$/.test(host)
    return given.length <= 64 && given.every(isHost) ? given : undefined
  },
  LIST,
).default([])

const CONFIG_MAP = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/
const KEY = /^(?!\.\.?$)(?!\.\.)[-._a-zA-Z0-9]{1,253}$/
const STANDARD_KEY = 'ca.crt'

export const configMapKey = setting(
  `must be the name of a ConfigMap, optionally followed by a slash and a key (default: ${STANDARD_KEY}), such as davit-bake-ca or trust/ca-bundle.crt`,
  (text) => {
    const [configMap = '', key = STANDARD_KEY, ...rest] = text.split('/')
    return CONFIG_MAP.test(configMap) && KEY.test(key) && rest.length === 0 ? { configMap, key } : undefined
  },
)

/** Rejects a password, since the URL is visible in the Jobs. */
export const endpointUrl = setting(
  'must be an http or https URL without a user name or password, such as https://vpce-1a2b.ssm.eu-west-1.vpce.amazonaws.com',
  (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    const isOpen = url?.username === '' && url.password === ''
    return isOpen && /^https?:$/.test(url.protocol) ? text : undefined
  },
)

/** The name of a replica without a given one: its host, as a valid object name. */
export function replicaNameFromHost(host: string): string {
  const words = host.toLowerCase().match(/[a-z0-9]+/g) ?? []
  return words.join('-').slice(0, 63).replace(/-$/, '') || 'davit'
}

const MAX_JSON = 65_536

/** A value in the form of Kubernetes. @param what such as `a list of tolerations` @param example as JSON */
function json<Schema extends z.ZodType>(schema: Schema, what: string, example: string) {
  const allowed = `must be ${what} as JSON, such as ${example}`
  return z.string().transform((text, context): z.output<Schema> => {
    const { data, error } = schema.safeParse(text.length > MAX_JSON ? undefined : tryParseJson(text))
    if (data !== undefined) return data
    const [issue] = error?.issues ?? []
    const where = issue?.path.join('.') ?? ''
    context.addIssue({
      code: 'custom',
      message: where === '' ? allowed : `${allowed} (${where}: ${issue?.message})`,
    })
    return z.NEVER
  })
}

/** Names of objects, separated by commas. */
const objectNames = setting(
  'must be at most 16 comma-separated names of objects',
  (text) => {
    const names = text.split(',').map((name) => name.trim())
    return names.length <= 16 && names.every((name) => objectName.safeParse(name).success) ? names : undefined
  },
  LIST,
)

/** Variables of the controller for the Pods of bakes. The chart sets them, except the first. */
export const bakePodVariables = {
  DAVIT_BAKE_IMAGE_PULL_POLICY: z
    .enum(pullPolicy.options, 'must be Always, IfNotPresent or Never')
    .optional(),
  DAVIT_BAKE_IMAGE_PULL_SECRETS: objectNames.optional(),
  DAVIT_BAKE_POD_SECURITY_CONTEXT: json(
    podSecurityContext,
    'changes to a security context of Pods that leave it without privileges',
    '{"runAsUser":null}',
  ).optional(),
  DAVIT_BAKE_NODE_SELECTOR: json(nodeSelector, 'a node selector', '{"pool":"bakes"}').optional(),
  DAVIT_BAKE_TOLERATIONS: json(
    tolerations,
    'a list of tolerations',
    '[{"key":"bakes","operator":"Exists"}]',
  ).optional(),
  DAVIT_BAKE_AFFINITY: json(affinity, 'an affinity', '{"nodeAffinity":{}}').optional(),
  DAVIT_BAKE_PRIORITY_CLASS: z
    .string()
    .refine((text) => objectName.safeParse(text).success, 'must be the name of a PriorityClass')
    .optional(),
  DAVIT_BAKE_POD_LABELS: json(podLabels, 'labels', '{"team":"platform"}').optional(),
  DAVIT_BAKE_POD_ANNOTATIONS: json(podAnnotations, 'annotations', '{"note":"ours"}').optional(),
}
