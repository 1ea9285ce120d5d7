import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { type Credentials, RefreshingCredentials } from './auth.ts'

const tls = { ca: 'authority' }
const token = (name: string): Credentials => ({
  headers: ['authorization', `Bearer ${name}`],
  tls: { ...tls },
})

function start(everyMs?: number) {
  const clock = new FakeClock()
  const loads: boolean[] = []
  let next: () => Promise<Credentials> = async () => token('first')
  const source = new RefreshingCredentials({
    first: token('first'),
    load: (refused) => {
      loads.push(refused)
      return next()
    },
    ...(everyMs === undefined ? {} : { everyMs }),
    clock,
  })
  return { clock, source, loads, gives: (how: () => Promise<Credentials>) => (next = how) }
}

describe('renewed credentials', () => {
  it('are looked up again in the background at most so often, while the old ones stay in use', async () => {
    const { clock, source, loads, gives } = start(60_000)
    gives(async () => token('second'))
    clock.advance(59_999)
    expect(source.current()).toEqual(token('first'))
    expect(loads).toEqual([])
    clock.advance(1)
    expect(source.current()).toEqual(token('first'))
    void source.current()
    await settle()
    expect(source.current()).toEqual(token('second'))
    expect(loads).toEqual([false])
  })

  it('are fetched at once after a refusal, and all calls wait for the same ones', async () => {
    const { source, loads, gives } = start()
    gives(async () => token('second'))
    source.refused(source.current() as Credentials)
    const both = [source.current(), source.current()]
    expect(both[0]).toBeInstanceOf(Promise)
    expect(await Promise.all(both)).toEqual([token('second'), token('second')])
    expect(loads).toEqual([true])
    expect(source.current()).toEqual(token('second'))
  })

  it('that were being looked up when the old ones were refused are not trusted: a new look is', async () => {
    const { clock, source, loads, gives } = start(1_000)
    let bring: (credentials: Credentials) => void = () => undefined
    gives(() => new Promise((resolve) => (bring = resolve)))
    clock.advance(1_000)
    const first = source.current() as Credentials
    source.refused(first)
    gives(async () => token('third'))
    const next = source.current()
    bring(token('second'))
    expect(await next).toEqual(token('third'))
    await settle()
    expect(source.current()).toEqual(token('third'))
    expect(loads).toEqual([false, true])
  })

  it('are not fetched for the refusal of older ones, nor again and again for the same', async () => {
    const { clock, source, loads } = start()
    const first = source.current() as Credentials
    source.refused(token('older'))
    expect(source.current()).toBe(first)
    source.refused(first)
    await source.current()
    for (let call = 0; call < 100; call += 1) {
      source.refused(first)
      await source.current()
    }
    expect(loads).toEqual([true])
    clock.advance(5_000)
    source.refused(first)
    await source.current()
    expect(loads).toEqual([true, true])
  })

  it('stay the old ones when new ones cannot be had, or not in time', async () => {
    const { clock, source, gives } = start()
    gives(() => Promise.reject(new Error('no file')))
    source.refused(source.current() as Credentials)
    expect(await source.current()).toEqual(token('first'))
    gives(() => new Promise(() => undefined))
    clock.advance(5_000)
    source.refused(source.current() as Credentials)
    const waiting = source.current()
    clock.advance(30_000)
    expect(await waiting).toEqual(token('first'))
  })

  it('keep the same TLS material by identity unless it changed, so that connections are kept', async () => {
    const { clock, source, gives } = start(1_000)
    const before = source.current() as Credentials
    gives(async () => token('second'))
    clock.advance(1_000)
    void source.current()
    await settle()
    const after = source.current() as Credentials
    expect(after).not.toBe(before)
    expect(after.tls).toBe(before.tls)
    gives(async () => ({ ...token('second'), tls: { ca: 'another' } }))
    clock.advance(1_000)
    void source.current()
    await settle()
    expect((source.current() as Credentials).tls).toEqual({ ca: 'another' })
  })
})
