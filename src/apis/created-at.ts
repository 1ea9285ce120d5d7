import { timeOfName } from './ids.ts'

/** A name may have been made by the author of a manifest, with whatever time. */
const TOLERANCE_MS = 60_000

type Named = { name: string; creationTimestamp?: string | undefined }

/**
 * When an object was made, ISO 8601 with milliseconds: the time in its name, if Davit made the name and that is near
 * the API server's (which has whole seconds), else that one (settled, "REST shapes").
 */
export function createdAtOf(metadata: Named): string {
  const named = timeOfName(metadata.name)
  const stored = Date.parse(metadata.creationTimestamp ?? '')
  if (Number.isNaN(stored)) return new Date(named || 0).toISOString()
  return new Date(hasGeneratedName(metadata) ? named : stored).toISOString()
}

/** Whether Davit made the name for this very object, so that no other had it before. */
export function hasGeneratedName({ name, creationTimestamp }: Named): boolean {
  return Math.abs(timeOfName(name) - Date.parse(creationTimestamp ?? '')) <= TOLERANCE_MS
}
