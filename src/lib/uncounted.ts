import type { CloudMetrics } from './metrics.ts'

/** Of a process that ends with one answer, whose figures nobody comes for. */
export const NOOP_METRICS: CloudMetrics = { cloudCall() {}, cloudRetry() {}, cloudTurn() {} }
