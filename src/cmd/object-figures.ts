/** What metrics tell of the objects of organizations, by kind, state and reason: no name of one. */

import type { GaugeRow } from '../lib/metrics.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'

type ObjectWithConditions = {
  metadata: { deletionTimestamp?: string | undefined }
  status?: { conditions?: { type: string; status: string; reason: string }[] | undefined } | undefined
}

/** Endpoints that this process knows; one that is being deleted counts as disabled. */
export function endpointsByState(directory: Pick<EndpointDirectory, 'all'>): Record<string, number> {
  const found = { enabled: 0, disabled: 0, disabled_automatically: 0 }
  for (const { enabled, endpoint } of directory.all()) {
    const isAutomatic = endpoint.status?.disabledReason === 'ConsecutiveFailures'
    if (enabled) found.enabled += 1
    else if (isAutomatic) found.disabled_automatically += 1
    else found.disabled += 1
  }
  return found
}

/** A row for each kind and reason, and one with the value 0 for a kind of which all are ready. */
export function countNotReady(objects: Readonly<Record<string, Iterable<ObjectWithConditions>>>): GaugeRow[] {
  return Object.entries(objects).flatMap(([kind, all]) => {
    const reasons = new Map<string, number>()
    for (const { metadata, status } of all) {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready')
      if (ready?.status === 'True' || metadata.deletionTimestamp !== undefined) continue
      const reason = ready?.reason ?? 'Unseen'
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    }
    if (reasons.size === 0) return [{ labels: [kind, ''], value: 0 }]
    return [...reasons].map(([reason, value]) => ({ labels: [kind, reason], value }))
  })
}
