import type { RecorderMetrics, RuntimeMetrics } from '../../src/lib/metrics.ts'

/** For tests that count nothing. */
export const NO_RUNTIME_METRICS: RuntimeMetrics = {
  controllerAdded() {},
  reconciled() {},
  watchAdded() {},
  watchRestarted() {},
}

export const NO_RECORDER_METRICS: RecorderMetrics = { kubernetesEventDropped() {} }
