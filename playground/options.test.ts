import { expect, it } from 'vitest'
import { parseOptions, USAGE, UsageError } from './options.mjs'

it('without options, it bakes, asks and keeps its files in the standard folder', () => {
  expect(parseOptions([], '/davit/.davit')).toEqual({
    ...{ once: false, realWaits: false, controllers: 1, bakes: true, state: '/davit/.davit' },
    ...{ yes: false, help: false },
  })
})

it('reads each option', () => {
  const args = ['--once', '--real-waits', '--controllers', '3', '--no-bakes', '--state', '/s', '--yes', '-h']
  expect(parseOptions(args, '/davit/.davit')).toEqual({
    ...{ once: true, realWaits: true, controllers: 3, bakes: false, state: '/s' },
    ...{ yes: true, help: true },
  })
})

it.each([
  { given: ['--one'], want: "Unknown option '--one'" },
  { given: ['once'], want: 'once' },
  { given: ['--state', ''], want: "Option '--state' must be a folder" },
  { given: ['--controllers', '10'], want: "Option '--controllers' must be a number from 1 to 9" },
])('answers $given with its usage', ({ given, want }) => {
  expect(() => parseOptions(given, '/')).toThrow(UsageError)
  expect(() => parseOptions(given, '/')).toThrow(want)
  expect(() => parseOptions(given, '/')).toThrow(USAGE)
})

it('the usage fits a terminal of 110 columns', () => {
  expect(Math.max(...USAGE.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110)
})
