const POLL_MS = 20
export const LIMIT_MS = 30_000

/** Polls until there is an answer: the API server is another process that sends no notification here. */
export async function until<T>(
  ask: () => Promise<T | undefined>,
  failure: () => string,
  limitMs = LIMIT_MS,
): Promise<T> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (performance.now() > deadline) throw new Error(failure())
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
