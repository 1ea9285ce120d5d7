import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { Contact } from './contact.ts'

function start() {
  const clock = new FakeClock()
  return { clock, contact: new Contact(clock) }
}

describe('the contact of a watch', () => {
  it('is lost from the first failure on, however many follow', () => {
    const { clock, contact } = start()
    clock.advance(60_000)
    expect(contact.lostForMs()).toBe(0)
    contact.lost()
    clock.advance(3000)
    contact.opening()
    clock.advance(100)
    contact.lost()
    clock.advance(4000)
    expect(contact.lostForMs()).toBe(7100)
  })

  it('is there again when something comes', () => {
    const { clock, contact } = start()
    contact.lost()
    clock.advance(5000)
    contact.opening()
    contact.kept()
    expect(contact.lostForMs()).toBe(0)
  })

  it('is there again when the server keeps a silent watch open', () => {
    const { clock, contact } = start()
    contact.lost()
    clock.advance(5000)
    contact.opening()
    clock.advance(1999)
    expect(contact.lostForMs()).toBe(6999)
    clock.advance(1)
    expect(contact.lostForMs()).toBe(0)
  })

  it('is lost anew when a watch that was open for long breaks', () => {
    const { clock, contact } = start()
    contact.lost()
    contact.opening()
    clock.advance(600_000)
    contact.lost()
    clock.advance(1000)
    expect(contact.lostForMs()).toBe(1000)
  })
})
