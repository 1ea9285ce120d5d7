/** The codes of the events that Davit logs, with their levels. The calls themselves are the list. */
import { logCallsIn } from './log-calls.ts'
import type { SourceFile } from './source-files.ts'

export type LogEvent = { path: string; event: string; levels: readonly string[]; messages: readonly string[] }

/** One for each call. @throws Error for a call whose code is computed: searches and the contract cannot know it */
export function logEventsIn(sources: readonly SourceFile[]): LogEvent[] {
  return sources.flatMap(({ path, program }) =>
    logCallsIn(program).map(({ event, levels, messages }) => {
      if (event === undefined) throw new Error(`${path} logs an event whose code is not a text`)
      return { path, event, levels, messages }
    }),
  )
}

/** Lines of the form `reconcile_failed error`; a code with two levels has two lines. */
export function logEventLines(sources: readonly SourceFile[]): string[] {
  const lines = logEventsIn(sources).flatMap(({ event, levels }) =>
    levels.map((level) => `${event} ${level}`),
  )
  return [...new Set(lines)]
}
