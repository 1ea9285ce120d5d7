/**
 * Preloaded in a role (NODE_OPTIONS=--import): shifts its wall clock by the milliseconds in CLOCK_OFFSET_FILE, as if the
 * machine's clock had been set. Timers and the monotonic clock are not affected. A file next to it records when each offset took
 * effect.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const LOOK_EVERY_MS = 10

const path = process.env.CLOCK_OFFSET_FILE ?? ''
const realNow = Date.now
let offset = 0

const now = () => realNow() + offset

globalThis.Date = new Proxy(Date, {
  construct: (target, args, made) => Reflect.construct(target, args.length === 0 ? [now()] : args, made),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
})

function look(): void {
  const wanted = Number(readFileSync(path, 'utf8'))
  if (wanted === offset) return
  offset = wanted
  writeFileSync(`${path}.seen`, String(offset))
}

look()
setInterval(look, LOOK_EVERY_MS).unref()
