/** Lists every metric of both roles by asking the registry. */
import { Registry } from 'prom-client'
import type { RunningApi } from '../../src/cmd/api.ts'
import { parseConfig } from '../../src/cmd/config.ts'
import {
  registerApiGauges,
  registerCertificate,
  registerControllerGauges,
  registerReadiness,
} from '../../src/cmd/gauges.ts'
import { createMetrics, type Metrics } from '../../src/cmd/metrics.ts'
import type { RunningController } from '../../src/cmd/start-controller.ts'
import type { GaugeRegistry } from '../../src/lib/metrics.ts'
import { flatten } from './flatten.ts'
import { metricCalls } from './metric-calls.ts'
import type { SourceFile } from './source-files.ts'

/** Fields of a metric of the library that its types leave out. */
type Registered = {
  name: string
  help: string
  type: string
  labelNames: readonly string[]
  upperBounds?: readonly number[]
  get(): Promise<{ values: readonly { labels: Readonly<Record<string, string | number>> }[] }>
}

const config = parseConfig({})

const ROLES: Readonly<Record<string, (registry: GaugeRegistry) => void>> = {
  controller: (registry) => registerControllerGauges(registry, nothing() as RunningController, config),
  api(registry) {
    registerApiGauges(registry, nothing() as RunningApi, config)
    registerCertificate(registry, undefined)
  },
}

/** @throws Error if the source registers a metric that is missing from the roles here */
export async function metricLines(sources: readonly SourceFile[]): Promise<string[]> {
  const found: Record<string, Record<string, unknown>> = {}
  const names = new Set<string>()
  for (const [role, register] of Object.entries(ROLES)) {
    const registered = registeredBy(() => {
      const registry = withoutReadings(createMetrics({ version: '0.0.0', role }))
      registerReadiness(registry, () => [])
      register(registry)
    })
    const described = await Promise.all(
      registered.map(async (one) => [one.name, await describe(one)] as const),
    )
    found[role] = Object.fromEntries(described)
    for (const { name } of registered) names.add(name)
  }
  const unknown = metricCalls(sources).filter((name) => !names.has(name))
  if (unknown.length > 0)
    throw new Error(`tools/contract/metrics.ts must also register ${unknown.join(', ')}`)
  return flatten(found)
}

async function describe(metric: Registered) {
  const { help, type, labelNames, upperBounds } = metric
  const values = isOwn(metric) ? await labelValues(metric) : []
  return {
    type,
    help,
    ...(labelNames.length > 0 ? { labels: [...labelNames] } : {}),
    ...(upperBounds && isOwn(metric) ? { buckets: [...upperBounds] } : {}),
    ...(values.length > 0 ? { known: values } : {}),
  }
}

/** Excludes the library's metrics, whose values are those of this machine. */
function isOwn({ name }: Registered): boolean {
  return /^(davit|controller_runtime)_/.test(name)
}

/** Values of its only label, as far as they are known from the start. */
async function labelValues(metric: Registered): Promise<string[]> {
  if (metric.labelNames.length !== 1 || metric.type === 'histogram') return []
  const [label = ''] = metric.labelNames
  const { values } = await metric.get()
  return [...new Set(values.map(({ labels }) => String(labels[label])))].filter(
    (text) => text !== 'undefined',
  )
}

/** Captures registrations, since a registry does not list metrics without values. A metric that is removed again is not exported. */
function registeredBy(work: () => void): Registered[] {
  const seen: { metric: Registered; registry: Registry }[] = []
  const register = Registry.prototype.registerMetric
  Registry.prototype.registerMetric = function (metric) {
    seen.push({ metric: metric as unknown as Registered, registry: this })
    register.call(this, metric)
  }
  try {
    work()
  } finally {
    Registry.prototype.registerMetric = register
  }
  return seen
    .filter(({ metric, registry }) => registry.getSingleMetric(metric.name) !== undefined)
    .map(({ metric }) => metric)
}

/** Skips the readings of a gauge, whose sources do not exist here; keeps its labels if they do not depend on the readings. */
function withoutReadings({ gauge, gaugeRows, total }: Metrics): GaugeRegistry {
  return {
    gauge(name, help, read, label) {
      const labels = () => Object.fromEntries(Object.keys(read()).map((key) => [key, 0]))
      gauge(name, help, label === undefined ? () => 0 : labels, label)
    },
    total: (name, help) => total(name, help, () => 0),
    gaugeRows: (name, help, labels) => gaugeRows(name, help, labels, () => []),
  }
}

/** Replaces a part of a role: every property and every result of it is such a replacement again. */
function nothing(): unknown {
  const answer: unknown = new Proxy(() => undefined, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => 0 : answer),
    apply: () => answer,
  })
  return answer
}
