/**
 * The alerts with shorter times, so that a real fault brings each to fire within seconds: what is asked for is the same expression, over
 * shorter ranges, with lower thresholds of time and of streams, and for less long. Everything else is as the chart has it.
 */
import type { AlertRules } from '../alert-rules.ts'

const FOR = '2s'
const RANGE = '[10s]'
/** Three starts take longer. */
const RANGE_OF_RESTARTS = '[120s]'
const BEFORE = 'offset 8s'

/** Thresholds in seconds, and of streams as a share: as the chart has them, and here. */
const THRESHOLDS: Readonly<Record<string, readonly [string, string]>> = {
  DavitDeliveriesLate: ['> 60', '> 3'],
  DavitEventsWait: ['> 120', '> 3'],
  DavitEndpointFails: ['> 1800', '> 3'],
  DavitStoreBehind: ['> 5', '> 3'],
  DavitStreamsNearLimit: ['> 0.8', '> 0.01'],
}

/** @throws Error when a threshold is no longer what is replaced */
export function shortened({ groups }: AlertRules): AlertRules {
  return {
    groups: groups.map((group) => ({
      ...group,
      rules: group.rules.map((rule) => ({ ...rule, for: FOR, expr: shortExpression(rule.alert, rule.expr) })),
    })),
  }
}

function shortExpression(alert: string, expr: string): string {
  const [long, short] = THRESHOLDS[alert] ?? ['', '']
  if (!expr.includes(long)) throw new Error(`${alert} has no ${long} any more`)
  return expr
    .replace(long, short)
    .replaceAll(/\[\d+[mh]\]/g, alert === 'DavitRestarts' ? RANGE_OF_RESTARTS : RANGE)
    .replaceAll(/offset \d+[mh]/g, BEFORE)
}
