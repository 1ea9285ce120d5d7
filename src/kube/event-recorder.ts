import type { RawObject } from './client.ts'

/** What `kubectl describe` shows under Events. Reasons are CamelCase constants. */
export type RecordedEvent = { type: 'Normal' | 'Warning'; reason: string; message: string }

/** Best effort, bounded, never rejects. Repeats of the same event are counted on one object. */
export interface EventRecorder {
  record(about: Pick<RawObject, 'apiVersion' | 'kind' | 'metadata'>, event: RecordedEvent): void
}
