/**
 * Loaded before a role (NODE_OPTIONS=--import): its wall clock is off by as many milliseconds as the file in CLOCK_OFFSET_FILE
 * says, as if somebody had set the machine's. Timers and the monotonic clock go on as they do then. What holds from when
 * on is said in a file beside it.
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
