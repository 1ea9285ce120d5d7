/** Formats the results about the WebhookDeliveries of deliveries. */
import { milliseconds } from './figures.ts'
import { type Delays, GOAL_MS, type ObjectDelays } from './measure/object-delays.ts'
import type { FailuresUnderLoad } from './sections/failures.ts'
import type { SteadyObjects } from './sections/objects.ts'
import { renderTable } from './table.ts'

export function renderObjects(of: SteadyObjects): string {
  return delaysTable(`Objects of ${of.deliveries} successes, ${of.perSecond}/s by REST`, of)
}

export function renderFailures(of: FailuresUnderLoad): string {
  const title =
    `Objects of ${of.deliveries} failures, ${of.failuresPerSecond}/s ` +
    `next to healthy endpoints at saturation by REST, ${of.perSecond.toFixed(0)} deliveries/s`
  return delaysTable(title, of)
}

function delaysTable(title: string, { object, attempt }: ObjectDelays): string {
  const row = (what: string, { seen, inTime, delay }: Delays) => [
    what,
    percent(seen),
    percent(inTime),
    ...milliseconds(delay),
  ]
  return renderTable(`${title}: from the receipt until a watch has them (ms)`, [
    ['', 'seen', `within ${GOAL_MS / 1000} s`, 'p50', 'p90', 'p99', 'max'],
    row('object', object),
    row('object with its first attempt', attempt),
    ['wanted', percent(1), percent(1), '', '', '', String(GOAL_MS)],
  ])
}

/** Rounded down: only all of them are 100 %. */
function percent(part: number): string {
  return `${(Math.floor(part * 1000) / 10).toFixed(1)} %`
}
