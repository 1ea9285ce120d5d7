/** What the playground gives its reader works: its keys, and the lines that it prints to be pasted. */
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { PlaygroundFacts } from '../../playground/playground-file.ts'
import {
  type PlaygroundProcess,
  startPlaygroundProcess,
  temporaryFolder,
} from '../support/playground-process.ts'
import { ShellSession } from '../support/shell-session.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TEST_LIMIT_MS = 120_000
const BAKE_LIMIT_MS = 60_000

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let playground: PlaygroundProcess
let facts: PlaygroundFacts

beforeAll(async () => {
  folder = await temporaryFolder()
  playground = startPlaygroundProcess(folder.path)
  facts = await playground.facts()
}, TEST_LIMIT_MS)
afterAll(async () => {
  playground?.child.kill('SIGTERM')
  await playground?.ended
  await folder?.[Symbol.asyncDispose]()
})

it('each of two organizations has a key, which opens that one alone', async () => {
  const ask = async (organization: string, authorization: string) => {
    const url = `${facts.baseUrl}/organizations/${organization}/webhooks`
    return (await fetch(url, { headers: { authorization } })).status
  }
  const { organization, otherOrganization } = facts
  const key = await readFile(facts.keyFile, 'utf8')
  const otherKey = await readFile(facts.otherKeyFile, 'utf8')
  expect(await ask(organization, key)).toBe(200)
  expect(await ask(otherOrganization, otherKey)).toBe(200)
  expect(await ask(organization, otherKey)).toBe(404)
  expect(await ask(otherOrganization, key)).toBe(404)
  expect(await ask('nobody', key)).toBe(404)
  expect(await ask(organization, `Bearer ${key}`)).toBe(401)
  expect(await ask(organization, 'not-a-key')).toBe(401)
})

it('the lines that it prints to be pasted work, in their order', { timeout: TEST_LIMIT_MS }, async () => {
  await expect
    .poll(() => playground.output(), { timeout: 10_000 })
    .toContain('Press Ctrl-C to stop everything.')
  // Those for the boxes come when they were baked.
  await expect
    .poll(() => playground.output(), { timeout: BAKE_LIMIT_MS })
    .toMatch(/^ {2}curl .*registry\.password/m)
  const lines = [...playground.output().matchAll(/^ {2}(\S.*)$/gm)].map(([, line = '']) => line)
  const commands = lines.filter((line) => !line.startsWith('#'))
  expect(commands.filter((line) => line.startsWith('kubectl '))).toHaveLength(9)
  expect(commands.filter((line) => line.startsWith('curl '))).toHaveLength(8)
  await using shell = await ShellSession.start({ cwd: ROOT, path: dirname(facts.kubectl) })
  for (const command of commands) {
    // A person is not as quick as the one before is delivered.
    if (command.endsWith(' get webhookdeliveries')) {
      const look = async () => (await shell.paste(command)).stdout
      await expect.poll(look, { timeout: 10_000, interval: 200 }).toContain('environment.started')
    }
    const { code, statuses, stderr } = await shell.paste(command)
    expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
    if (command.startsWith('curl ')) expect([200, 201, 202], command).toContain(statuses[0])
  }
})
