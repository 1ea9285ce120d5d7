/** The alerts as the chart has them. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { z } from 'zod'

const rule = z.strictObject({
  alert: z.string(),
  expr: z.string(),
  for: z.string(),
  labels: z.strictObject({ severity: z.enum(['critical', 'warning', 'info']) }),
  annotations: z.strictObject({ summary: z.string(), description: z.string(), runbook_url: z.string() }),
})
export type AlertRule = z.infer<typeof rule>

const rules = z.strictObject({
  groups: z.array(z.strictObject({ name: z.string(), rules: z.array(rule) })),
})
export type AlertRules = z.infer<typeof rules>

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))
export const ALERTS_FILE = `${ROOT}charts/davit/files/alerts.yaml`

export function readAlerts(): AlertRules {
  return rules.parse(parse(readFileSync(ALERTS_FILE, 'utf8')))
}

export function allAlerts(): AlertRule[] {
  return readAlerts().groups.flatMap((group) => group.rules)
}
