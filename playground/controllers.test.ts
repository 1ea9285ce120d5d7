import { describe, expect, test } from 'vitest'
import { lastToEnd, type PlaygroundController } from './controllers.ts'
import type { Exit } from './davit-process.ts'

const KILLED: Exit = { code: null, signal: 'SIGKILL' }
const STOPPED: Exit = { code: 1, signal: null }

/** Controllers that end one after the other. */
async function endOf(...exits: Exit[]) {
  const notes: string[] = []
  let before: Promise<unknown> = Promise.resolve()
  const controllers = exits.map((exit, index): PlaygroundController => {
    const replica = `controller-${index + 1}`
    const exited = before.then(() => exit)
    before = exited
    const process = { pid: undefined, ready: Promise.resolve(), exited, stop: () => Promise.resolve() }
    return { replica, process, log: `/logs/${replica}.log`, opsUrl: '' }
  })
  return { end: await lastToEnd(controllers, (line) => notes.push(line)), notes }
}

describe('the last controller to end', () => {
  test.each([
    { exit: KILLED, what: 'was terminated by SIGKILL' },
    { exit: STOPPED, what: 'exited with code 1' },
  ])('names the option for several if it was the only one, and $what', async ({ exit, what }) => {
    expect(await endOf(exit)).toEqual({
      end: `controller-1 ${what}. To see another controller take over, start with --controllers 2. See its log: /logs/controller-1.log`,
      notes: [],
    })
  })

  test.each([
    { exits: [KILLED, STOPPED] },
    { exits: [STOPPED, KILLED] },
    { exits: [KILLED, KILLED, KILLED] },
  ])('names its log alone if it was one of several: $exits', async ({ exits }) => {
    const { end, notes } = await endOf(...exits)
    expect(end).toMatch(/^controller-\d (was terminated by SIGKILL|exited with code 1)\. See its log: /)
    expect(notes.filter((line) => line.startsWith('controller-'))).toHaveLength(exits.length - 1)
  })
})
