import { expect, test } from 'vitest'
import { parsePlan } from './settings.ts'

const REST_LOADS = ['restPublishing', 'restTls', 'restReplicas'] as const

test.for([
  { args: ['--quick'], minutes: 5 },
  { args: [], minutes: 30 },
])('with $args, publishing by REST ends within $minutes minutes', ({ args, minutes }) => {
  const plan = parsePlan(args)
  const seconds = REST_LOADS.map((name) => plan[name].limitSeconds).reduce((sum, one) => sum + one, 0)
  expect(seconds).toBeLessThanOrEqual(minutes * 60)
})

test.for([
  { args: ['--only', 'rest-tls'], want: { name: 'rest-tls', isNamed: false, form: 'full' } },
  { args: ['--only', 'rest-tls', '--name', 'a'], want: { name: 'a', isNamed: true, form: 'full' } },
  { args: ['--quick'], want: { name: 'quick', isNamed: false, form: 'quick' } },
  { args: ['--long'], want: { name: 'long', isNamed: false, form: 'long' } },
])('$args is a plan', ({ args, want }) => {
  expect(parsePlan(args)).toMatchObject(want)
})

test('profiles go to the section that takes them', () => {
  const { restPublishing } = parsePlan(['--only', 'rest-publishing', '--profiles', 'a/folder'])
  expect(restPublishing.profiles).toBe('a/folder')
  expect(parsePlan([]).restPublishing.profiles).toBeUndefined()
})

test.for([
  [['--only', 'rest-tls', '--profiles', 'a'], '--profiles requires the section rest-publishing'],
  [['--only', 'rest-everything'], 'there is no section rest-everything'],
  [['--name', 'a/b'], 'a name has letters, digits, dots and dashes'],
] as const)('%s is rejected', ([args, want]) => {
  expect(() => parsePlan(args)).toThrow(want)
})
