import { parseSync } from 'oxc-parser'
import { expect, test } from 'vitest'
import { logEventLines, logEventsIn } from './log-events.ts'
import type { SyntaxNode } from './source-files.ts'

function sourceOf(text: string) {
  return [{ path: 'example.ts', program: parseSync('example.ts', text).program as unknown as SyntaxNode }]
}

test.each([
  { given: "log.warn('watch_failed', 'watch failed; restarting', { error })", want: ['watch_failed warn'] },
  { given: "this.#options.log.error('reconcile_failed', 'failed')", want: ['reconcile_failed error'] },
  { given: "logger?.info('process_stopped', 'stopped')", want: ['process_stopped info'] },
  {
    given: "log[isBad ? 'warn' : 'info']('event_recorded', 'recorded an Event')",
    want: ['event_recorded warn', 'event_recorded info'],
  },
  {
    given: "const level = isBad ? 'warn' : 'info'; log[level]('tool_output', piece)",
    want: ['tool_output warn', 'tool_output info'],
  },
  { given: "log.info('a_thing', 'once'); log.info('a_thing', 'twice')", want: ['a_thing info'] },
  { given: "log.append(event); eventLog.drain(); console.error('not a log call')", want: [] },
  { given: 'logger[level]({ ...fields, event }, message)', want: [] },
])('$given', ({ given, want }) => {
  expect(logEventLines(sourceOf(given))).toEqual(want)
})

test.each([
  { given: "log.info('a_thing', 'listening')", want: ['listening'] },
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code.
  { given: "log.info('a_thing', `pulled ${bytes} in ${seconds} s`)", want: ['pulled … in … s'] },
  { given: "log.info('a_thing', found ? 'found image' : 'no image')", want: ['found image', 'no image'] },
  { given: "const TEXT = 'skipped'; log.info('a_thing', TEXT)", want: ['skipped'] },
  { given: "log.info('a_thing', piece)", want: [] },
])('the message of $given', ({ given, want }) => {
  expect(logEventsIn(sourceOf(given))).toMatchObject([{ messages: want }])
})

test.each([
  'log.info(code, "listening")',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code.
  'log.warn(`${name}_failed`, "failed")',
  'log.error()',
])('%s has no code that a search can use', (given) => {
  expect(() => logEventsIn(sourceOf(given))).toThrow('example.ts')
})

test('a level that the file does not show is a mistake', () => {
  expect(() => logEventLines(sourceOf("log[level]('a_thing', 'listening')"))).toThrow('a_thing')
})
