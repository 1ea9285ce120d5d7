import type { HelperResult } from '../boxes/node/box-answer.ts'
import { InputTooLongError } from './bounded-input.ts'
import { BoxConfigError } from './node-helpers.ts'

/** Until there is an answer nothing else may keep the process alive: timers of waits do not. */
const STAY_MS = 60_000

/** Prints what `run` answers, and lets the process end with it; `failed` is the answer for what went wrong before. */
export async function respondAndExit(
  run: () => Promise<HelperResult>,
  failed: (words: string) => HelperResult,
): Promise<void> {
  const stay = setInterval(() => {}, STAY_MS)
  const { exitCode, stdout, stderr } = await run().catch((error) => failed(wordsOf(error)))
  clearInterval(stay)
  process.stderr.write(stderr)
  process.stdout.write(stdout)
  process.exitCode = exitCode
}

/** An error that nobody has foreseen is named and not quoted: it could repeat what must not be shown. */
function wordsOf(error: unknown): string {
  if (error instanceof BoxConfigError) return `the environment has a mistake: ${error.message}`
  if (error instanceof InputTooLongError) return `what came on stdin ${error.message}`
  const { name = 'Error', stack = '' } = error instanceof Error ? error : {}
  const [, place = ''] = /\/([^/\s]+\.ts:\d+)/.exec(stack) ?? []
  return `an error that is Davit's own: ${name} ${place}`.trimEnd()
}
