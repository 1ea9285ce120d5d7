const started = performance.now()

/** Tells people what goes on; results go elsewhere. */
export function report(text: string): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(0).padStart(4)
  process.stderr.write(`${seconds} s  ${text}\n`)
}
