import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { WatchHealth } from './watch-restarts.ts'

function start() {
  const clock = new FakeClock()
  return { clock, contact: new WatchHealth(clock) }
}

describe('the contact of a watch', () => {
  it('is lost from the first failure on, however many follow', () => {
    const { clock, contact } = start()
    clock.advance(60_000)
    expect(contact.disconnectedForMs()).toBe(0)
    contact.disconnected()
    clock.advance(3000)
    contact.opening()
    clock.advance(100)
    contact.disconnected()
    clock.advance(4000)
    expect(contact.disconnectedForMs()).toBe(7100)
  })

  it('is there again when something comes', () => {
    const { clock, contact } = start()
    contact.disconnected()
    clock.advance(5000)
    contact.opening()
    contact.connected()
    expect(contact.disconnectedForMs()).toBe(0)
  })

  it('is there again when the server keeps a silent watch open', () => {
    const { clock, contact } = start()
    contact.disconnected()
    clock.advance(5000)
    contact.opening()
    clock.advance(1999)
    expect(contact.disconnectedForMs()).toBe(6999)
    clock.advance(1)
    expect(contact.disconnectedForMs()).toBe(0)
  })

  it('is lost anew when a watch that was open for long breaks', () => {
    const { clock, contact } = start()
    contact.disconnected()
    contact.opening()
    clock.advance(600_000)
    contact.disconnected()
    clock.advance(1000)
    expect(contact.disconnectedForMs()).toBe(1000)
  })
})
