import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  descendantsOf,
  livingOf,
  type PlaygroundProcess,
  startOnTerminal,
  startPlaygroundProcess,
  temporaryFolder,
} from '../support/playground-process.ts'

const TEST_LIMIT_MS = 120_000
/** Promised after Ctrl-C, and after a kill. */
const ENDED_WITHIN_MS = 5000
const GONE_WITHIN_MS = 10_000
/** Half a minute, on a machine that is busy with other tests. */
const TAKEN_OVER_WITHIN_MS = 80_000

let folder: Awaited<ReturnType<typeof temporaryFolder>>
const started: Pick<PlaygroundProcess, 'child' | 'ended'>[] = []

beforeEach(async () => {
  folder = await temporaryFolder()
})

afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
  await folder[Symbol.asyncDispose]()
})

function start(...args: string[]): PlaygroundProcess {
  const playground = startPlaygroundProcess(folder.path, ...args)
  started.push(playground)
  return playground
}

async function running() {
  const playground = start()
  const facts = await playground.facts()
  // A command that one of them runs meanwhile is not one of the permanent processes.
  const pids = await livingOf(await descendantsOf(facts.pid))
  // Controller, REST server, the servers' helper, etcd and the API server.
  expect(pids.length).toBeGreaterThanOrEqual(5)
  return { playground, facts, pids }
}

async function untilGone(pids: readonly number[], ms: number): Promise<void> {
  await vi.waitFor(async () => expect(await livingOf(pids)).toEqual([]), { timeout: ms, interval: 100 })
}

describe('the playground', { timeout: TEST_LIMIT_MS }, () => {
  it('once, ends by itself after ten deliveries whose signatures all verified, and two bakes', async () => {
    const playground = start('--once')
    expect(await playground.ended, playground.output()).toBe(0)
    const output = await playground.stdout
    expect(output).toMatch(
      /^[1-9]\d deliveries succeeded; the receiver rejected \d+ attempts? on purpose\.$/m,
    )
    const [, verified, all] = /^(\d+) of (\d+) signatures verified\.$/m.exec(output) ?? []
    expect(verified).toBe(all)
    expect(output).toMatch(
      /^2 bakes finished: one succeeded, one failed on purpose \(wrong_credentials\)\.$/m,
    )
    const lines = output.match(/ verified$/gm) ?? []
    expect(String(lines.length)).toBe(all)
    expect(output).not.toContain('\u001b')
    expect(Math.max(...output.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
    expect(await playground.stderr).toBe('')
  })

  it('tells scripts, and nobody else, where everything is while it runs, and refuses a second one', async () => {
    const { playground, facts } = await running()
    for (const file of [playground.file, facts.kubeconfig, facts.keyFile, facts.otherKeyFile])
      expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(facts).toMatchObject({ pid: playground.child.pid, namespace: 'acme', organization: 'acme' })
    expect((await fetch(facts.health)).status).toBe(200)
    expect(await (await fetch(facts.metrics)).text()).toMatch(/^davit_build_info\{/m)
    // It takes nothing that is not signed.
    expect((await fetch(`${facts.receiver}/billing`, { method: 'POST', body: '{}' })).status).toBe(401)
    const second = start('--once')
    expect(await second.ended).toBe(1)
    expect(await second.stderr).toBe(
      `A playground is already running (process ${facts.pid}).\n` +
        'To start a second one, run: npm start -- --state <another folder>\n',
    )
    expect(existsSync(playground.file)).toBe(true)
  })

  it('ends everything on Ctrl-C, pressed twice or not, and takes its file with it', async () => {
    const { playground, facts, pids } = await running()
    const begin = performance.now()
    process.kill(-facts.pid, 'SIGINT')
    process.kill(-facts.pid, 'SIGINT')
    expect(await playground.ended, playground.output()).toBe(0)
    await untilGone(pids, ENDED_WITHIN_MS)
    expect(performance.now() - begin).toBeLessThan(ENDED_WITHIN_MS)
    const logs = ['api.log', 'bakes.log', 'control-plane.log', 'controller.log']
    expect(logs).toEqual(expect.arrayContaining(await readdir(folder.path)))
    expect(existsSync(dirname(facts.kubeconfig))).toBe(false)
    expect(existsSync(facts.kubeconfig)).toBe(false)
    expect(await playground.stdout).toMatch(/^\d+ of \d+ signatures verified\.$/m)
  })

  it('ends on Ctrl-C while it still starts', async () => {
    const playground = start('--once')
    const pids = await vi.waitFor(
      async () => {
        const found = await descendantsOf(playground.child.pid ?? 0)
        expect(found.length).toBeGreaterThanOrEqual(2)
        return found
      },
      { timeout: 30_000, interval: 50 },
    )
    process.kill(-(playground.child.pid ?? 0), 'SIGINT')
    expect(await playground.ended).toBe(1)
    await untilGone(pids, GONE_WITHIN_MS)
    expect(await playground.stdout).toMatch(/^Stopped before the playground was running\.$/m)
  })

  it('leaves no process when it is killed', async () => {
    const { playground, facts, pids } = await running()
    process.kill(facts.pid, 'SIGKILL')
    expect(await playground.ended).toBe('SIGKILL')
    await untilGone(pids, GONE_WITHIN_MS)
  })

  it('goes on at the other one when a controller is killed, and ends with the last of them', async () => {
    const playground = start('--controllers', '2')
    const { controllers = [] } = await playground.facts()
    const [one, other] = controllers
    expect(controllers.map(({ replica }) => replica)).toEqual([
      'playground-controller',
      'playground-controller-2',
    ])
    process.kill(one?.pid ?? 0, 'SIGKILL')
    await vi.waitFor(
      async () =>
        expect(await (await fetch(other?.metrics ?? '')).text()).toMatch(/^davit_shards_owned 256$/m),
      { timeout: TAKEN_OVER_WITHIN_MS, interval: 500 },
    )
    expect(playground.output()).toMatch(/^ *playground-controller was terminated by SIGKILL\. Its endpoints/m)
    process.kill(other?.pid ?? 0, 'SIGKILL')
    expect(await playground.ended).toBe(1)
    expect(await playground.stdout).toMatch(
      /^ *playground-controller-2 was terminated by SIGKILL\. See its log: .*controller-2\.log$/m,
    )
  })

  it.each(['0', '10', 'two', ''])('does not start %s controllers', async (number) => {
    const playground = start('--controllers', number)
    expect(await playground.ended).toBe(1)
    expect(await playground.stderr).toMatch(/^Option '--controllers' must be a number from 1 to 9\n\nusage: /)
  })

  it('gives its instructions in a file, as long as it runs', async () => {
    const playground = start('--no-bakes')
    const path = join(folder.path, 'instructions.txt')
    await vi.waitFor(() => expect(playground.output()).toContain(`These instructions are also in ${path}.`), {
      timeout: TEST_LIMIT_MS,
      interval: 100,
    })
    const text = await readFile(path, 'utf8')
    expect(text).toMatch(/^ {2}kubectl -n acme get webhookdeliveries$/m)
    expect(playground.output()).toContain(text.trim())
    // What another playground sends here says nothing about this one.
    const { receiver } = await playground.facts()
    expect((await fetch(`${receiver}/unknown`, { method: 'POST', body: '{}' })).status).toBe(404)
    playground.child.kill('SIGTERM')
    expect(await playground.ended, playground.output()).toBe(0)
    expect(playground.output()).toContain(
      `A request arrived for ${receiver}/unknown, but no endpoint of this playground has that URL.`,
    )
    expect(existsSync(path)).toBe(false)
  })

  it.each([
    { given: 'q', key: 'q' },
    { given: 'Ctrl-C', key: '\u0003' },
  ])('on a terminal reads keys, and leaves it as it was after $given', async ({ key }) => {
    const playground = startOnTerminal(folder.path, '--no-bakes')
    started.push(playground)
    const shown = (text: RegExp) =>
      vi.waitFor(() => expect(playground.output()).toMatch(text), { timeout: TEST_LIMIT_MS, interval: 100 })
    await shown(/billing +[1-9]\d* delivered .*q: quit/s)
    playground.type('h')
    await shown(/Run these commands.*Run these commands.*PAUSED/s)
    playground.type('p')
    await shown(/ not shown during the pause\./)
    playground.type(key)
    expect(await playground.ended, playground.output()).toBe(0)
    expect(playground.output()).toMatch(/^\d+ of \d+ signatures verified\.\r$/m)
    // The settings of a terminal that is not in raw mode.
    expect(playground.output()).toMatch(/^isig icanon iexten echo /m)
  })

  it('answers a wrong argument with its usage', async () => {
    const playground = start('--one')
    expect(await playground.ended).toBe(1)
    expect(await playground.stderr).toMatch(/^Unknown option '--one'.*\n\nusage: npm start -- \[--once\]/s)
    expect(await playground.stdout).toBe('')
  })
})
