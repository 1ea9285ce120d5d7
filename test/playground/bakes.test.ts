/** The two boxes that the playground bakes, and how they react to a user's actions. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { PlaygroundFacts } from '../../playground/playground-file.ts'
import { runKubectl } from '../support/control-plane-kubectl.ts'
import {
  descendantsOf,
  livingOf,
  type PlaygroundProcess,
  startPlaygroundProcess,
  temporaryFolder,
} from '../support/playground-process.ts'

const TEST_LIMIT_MS = 180_000
const WAIT = { timeout: 90_000, interval: 100 }

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let playground: PlaygroundProcess
let facts: PlaygroundFacts

beforeAll(async () => {
  folder = await temporaryFolder()
  playground = startPlaygroundProcess(folder.path)
  facts = await playground.facts()
}, TEST_LIMIT_MS)
afterAll(async () => {
  playground?.child.kill('SIGKILL')
  await playground?.ended
  await folder?.[Symbol.asyncDispose]()
})

async function kubectl(...args: string[]): Promise<string> {
  return await runKubectl(facts.kubectl, ['--kubeconfig', facts.kubeconfig, '-n', 'acme', ...args], '')
}

async function shown(text: RegExp): Promise<void> {
  await vi.waitFor(() => expect(playground.output()).toMatch(text), WAIT)
}

async function rebake(template: string): Promise<void> {
  const time = new Date().toISOString()
  await kubectl('annotate', 'btp', template, '--overwrite', `davit.dev/rebake-requested-at=${time}`)
}

test('two boxes are baked, and what becomes of them is shown', { timeout: TEST_LIMIT_MS }, async () => {
  await shown(/The bakes of two acme boxes finished:.*\ntime /s)
  const said = playground.output()
  expect(said).toMatch(/^ {4}works +succeeded +True +Baked$/m)
  expect(said).toMatch(/^ {4}wrong-password +failed +False +WrongCredentials$/m)
  expect(said).toMatch(/^ {6}digest +sha256:[0-9a-f]{64}$/m)
  expect(said).toContain(`credential  ${facts.bakes?.works.credential}, version 1 of its secret`)
  expect(said).toMatch(/^ {6}output +.*\n.*\n.*unauthorized/m)
  expect(said).toMatch(/^ {6}fix +The user name is wrong, or the secret is wrong/m)
  const log = await readFile(facts.bakes?.log ?? '', 'utf8')
  expect(log).toContain('"event":"bake_succeeded"')
  expect(said + log).not.toContain(await readFile(facts.bakes?.passwordFile ?? '', 'utf8'))
})

test('a box is baked again when it is asked for, and by itself when its password is right', {
  timeout: TEST_LIMIT_MS,
}, async () => {
  await rebake('works')
  await shown(/^ {4}works, bake 2$/m)
  const secret = await readFile(facts.bakes?.passwordFile ?? '', 'utf8')
  const url = `${facts.baseUrl}/organizations/acme/registry-credentials/${facts.bakes?.wrongPassword.credential}`
  const answer = await fetch(url, {
    method: 'PATCH',
    headers: { authorization: await readFile(facts.keyFile, 'utf8'), 'content-type': 'application/json' },
    body: JSON.stringify({ secret }),
  })
  expect(answer.status).toBe(200)
  await shown(/^ {4}wrong-password, bake 2$/m)
  expect(await kubectl('get', 'btp', '-o', 'jsonpath={.items[*].status.bake.state}')).toBe(
    'succeeded succeeded',
  )
})

test('a template that is deleted takes its Job with it', { timeout: TEST_LIMIT_MS }, async () => {
  await kubectl('delete', 'btp', 'works')
  await vi.waitFor(async () => {
    expect(await kubectl('get', 'jobs,pods', '-o', 'name')).not.toContain('/works-')
  }, WAIT)
  expect(await kubectl('get', 'jobs,pods', '-o', 'name')).toContain('/wrong-password-')
})

test('nothing of it is left when it is killed in the middle of a bake', {
  timeout: TEST_LIMIT_MS,
}, async () => {
  const before = await descendantsOf(facts.pid)
  await rebake('wrong-password')
  const pids = await vi.waitFor(async () => {
    const found = await descendantsOf(facts.pid)
    expect(found.length).toBeGreaterThan(before.length)
    return found
  }, WAIT)
  process.kill(facts.pid, 'SIGKILL')
  await playground.ended
  await vi.waitFor(async () => expect(await livingOf(pids)).toEqual([]), { timeout: 10_000, interval: 100 })
  await vi.waitFor(() => expect(existsSync(dirname(facts.kubeconfig))).toBe(false), WAIT)
})

test('without the programs it says which, and goes on', { timeout: TEST_LIMIT_MS }, async () => {
  const path = join(folder.path, 'programs')
  await mkdir(path)
  await symlink(facts.kubectl, join(path, 'kubectl'))
  const bare = startPlaygroundProcess({ state: folder.path, path }, '--once')
  expect(await bare.ended).toBe(0)
  const output = await bare.stdout
  expect(output).toContain('Skipping the bakes. Missing programs: docker-registry, htpasswd, skopeo')
  expect(output).toMatch(/^No bake ran\.$/m)
  expect(await bare.stderr).toBe('')
})
