import { expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { ReadLagGuard } from './parameter-store.ts'

const PLACE = '222222222222/eu-west-1'

it('knows what was written for five seconds, and what was removed for thirty', () => {
  const clock = new FakeClock()
  const recent = new ReadLagGuard(clock)
  recent.note(PLACE, { name: '/davit/acme/a', done: 'written', version: 3 })
  recent.note(PLACE, { name: '/davit/acme/b', done: 'removed' })
  recent.note('333333333333/eu-west-1', { name: '/davit/acme/c', done: 'removed' })
  const names = () => recent.under(PLACE, '/davit/acme/').map(({ name }) => name)
  expect(names()).toEqual(['/davit/acme/a', '/davit/acme/b'])
  expect(recent.under(PLACE, '/davit/acme2/')).toEqual([])
  clock.advance(4999)
  expect(recent.lastOf(PLACE, '/davit/acme/a')).toMatchObject({ done: 'written', version: 3 })
  clock.advance(1)
  expect(recent.lastOf(PLACE, '/davit/acme/a')).toBeUndefined()
  expect(names()).toEqual(['/davit/acme/b'])
  clock.advance(25_000)
  expect(names()).toEqual([])
})

it('knows the last write of each name only, and forgets the oldest when there are too many', () => {
  const recent = new ReadLagGuard(new FakeClock())
  for (let i = 0; i < 6000; i += 1)
    recent.note(PLACE, { name: `/davit/acme/${i}`, done: 'written', version: 1 })
  recent.note(PLACE, { name: '/davit/acme/5999', done: 'removed' })
  expect(recent.under(PLACE, '/davit/acme/').length).toBeLessThanOrEqual(5000)
  expect(recent.lastOf(PLACE, '/davit/acme/0')).toBeUndefined()
  expect(recent.lastOf(PLACE, '/davit/acme/5999')).toEqual({ name: '/davit/acme/5999', done: 'removed' })
})
