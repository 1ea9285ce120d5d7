import type { LogRecord } from '../../apis/outcome-segment.ts'

/** A segment of outcomes, as the watch shows it. */
export type LoggedOutcomes = {
  name: string
  version: number
  /** The start of the replica that wrote it. */
  writer: string
  /** Milliseconds since 1970. */
  createdAt: number
  lowWater: number
  /** Characters of its records. */
  size: number
  records: readonly LogRecord[]
}
