import { expect, test } from 'vitest'
import { createClock } from './time.ts'

test('a timer fires once, not before its time, and never after it was stopped', async () => {
  const clock = createClock()
  const started = clock.monotonic()
  let stoppedRan = false
  const stop = clock.after(5, () => {
    stoppedRan = true
  })
  stop()
  // The runner itself keeps the process alive, so an unreferenced timer still fires here.
  await new Promise<void>((resolve) => clock.after(20, resolve))
  expect(clock.monotonic() - started).toBeGreaterThanOrEqual(18)
  expect(stoppedRan).toBe(false)
})

test('its timers do not keep a process alive', async () => {
  const { execFile } = await import('node:child_process')
  const source = `import { createClock } from ${JSON.stringify(new URL('./time.ts', import.meta.url).href)}
    createClock().after(2147483647, () => {})
    console.log('at the end')`
  const printed = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, ['--input-type=module', '-e', source], { timeout: 20_000 }, (error, stdout) =>
      error ? reject(error) : resolve(stdout),
    )
  })
  expect(printed).toBe('at the end\n')
})

test('wall time is milliseconds since 1970 and monotonic time does not go back', () => {
  const clock = createClock()
  expect(new Date(clock.now()).getUTCFullYear()).toBeGreaterThanOrEqual(2026)
  let last = clock.monotonic()
  for (let i = 0; i < 1000; i += 1) {
    const next = clock.monotonic()
    expect(next).toBeGreaterThanOrEqual(last)
    last = next
  }
})
