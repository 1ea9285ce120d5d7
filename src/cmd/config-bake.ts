/** Settings of the pod of a bake, which has its own: nothing of the operator's. */
import { z } from 'zod'
import {
  type BakeOrder,
  bakeOrder,
  MAX_ORDER_BYTES,
  ORDER_VARIABLE,
  OUTPUT_PATH,
  TMPFS_PATH,
} from '../apis/bake-order.ts'
import { ConfigError, type ConfigMistake, type Environment } from './config.ts'

const path = z.string().regex(/^\/[^:\0]*$/, 'must be an absolute path without colons')

const variables = z.object({
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
  const parsed = variables.safeParse(given)
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
