/** Thrown when the playground is to end before it runs. */
export class Stopped extends Error {
  override readonly name = 'Stopped'
}

/** Waits no longer than until it is to end; what is still under way ends with the process. @throws Stopped */
export async function untilStopped<T>(stopping: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(new Stopped())
  stopping.addEventListener('abort', stop, { once: true })
  if (stopping.aborted) stop()
  try {
    return await Promise.race([work, promise])
  } finally {
    stopping.removeEventListener('abort', stop)
  }
}
