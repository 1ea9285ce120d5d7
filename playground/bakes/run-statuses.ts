/** Statuses of the Jobs and pods of bakes, in the form that Kubernetes writes. */

function container(state: object) {
  return { name: 'bake', image: 'davit', imageID: '', ready: false, restartCount: 0, state }
}

export function running() {
  return { phase: 'Running', containerStatuses: [container({ running: { startedAt: now() } })] }
}

export function waiting(reason: string, message: string) {
  return { phase: 'Pending', containerStatuses: [container({ waiting: { reason, message } })] }
}

export function terminated({
  message,
  exitCode,
  reason,
}: {
  message: string
  exitCode: number
  reason: string | undefined
}) {
  const ended = {
    exitCode,
    message,
    reason: reason ?? (exitCode === 0 ? 'Completed' : 'Error'),
    finishedAt: now(),
  }
  return {
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    containerStatuses: [container({ terminated: ended })],
  }
}

/** The current time in the format of Kubernetes. */
export function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, 'Z')
}

const isTrue = (type: string, reason: string, message: string) => ({
  type,
  status: 'True',
  reason,
  message,
  lastTransitionTime: now(),
  lastProbeTime: now(),
})

/** @param startTime as already in the status of the Job */
export function complete(startTime = now()) {
  return {
    startTime,
    completionTime: now(),
    succeeded: 1,
    conditions: [
      isTrue('SuccessCriteriaMet', 'CompletionsReached', 'Reached expected number of succeeded pods'),
      isTrue('Complete', 'CompletionsReached', 'Reached expected number of succeeded pods'),
    ],
  }
}

export function failed(
  reason = 'BackoffLimitExceeded',
  message = 'Job has reached the specified backoff limit',
  startTime = now(),
) {
  return {
    startTime,
    failed: 1,
    conditions: [isTrue('FailureTarget', reason, message), isTrue('Failed', reason, message)],
  }
}
