import { describe, expect, test } from 'vitest'
import { DNS_LABEL } from '../../apis/meta.ts'
import { bakeName } from './bake-job.ts'

describe('the name of a bake', () => {
  const of = { template: 'shop', uid: 'u-1', generation: 1, rebake: undefined, number: 1 }

  test('is the same for the same bake', () => {
    expect(bakeName(of)).toBe(bakeName({ ...of }))
    expect(bakeName(of)).toMatch(/^shop-[0-9a-z]{8}$/)
  })

  test.for([
    { uid: 'u-2' },
    { generation: 2 },
    { rebake: '2026-01-31T12:00:00Z' },
    { number: 2 },
    { template: 'shop2' },
  ])('is another one with %j', (change) => {
    expect(bakeName({ ...of, ...change })).not.toBe(bakeName(of))
  })

  test('begins with as much of the name of the template as there is room for, without a dash at its end', () => {
    expect(bakeName({ ...of, template: 'a'.repeat(55) })).toMatch(/^a{54}-[0-9a-z]{8}$/)
    expect(bakeName({ ...of, template: `${'a'.repeat(52)}--b` })).toMatch(/^a{52}-[0-9a-z]{8}$/)
  })

  test.for([54, 55, 63])('is a DNS label for a template of %d characters', (length) => {
    expect(bakeName({ ...of, template: 'a'.repeat(length) })).toMatch(DNS_LABEL)
    expect(bakeName({ ...of, template: `${'a'.repeat(52)}--${'b'.repeat(length - 54)}` })).toMatch(DNS_LABEL)
  })
})
