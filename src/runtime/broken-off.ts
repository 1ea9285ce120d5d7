/** The watch was given up to be opened anew. */
export class BrokenOff extends Error {}

/** @throws BrokenOff at its end where that is because of the signal */
export async function* untilBrokenOff<T>(stream: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  try {
    for await (const one of stream) {
      if (signal.aborted) break
      yield one
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
  if (signal.aborted) throw new BrokenOff()
}
