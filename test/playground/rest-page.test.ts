/** docs/guides/rest-api.md is true: each of its commands, pasted next to a running playground, has the documented result. */
import { readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type PlaygroundProcess,
  startPlaygroundProcess,
  temporaryFolder,
} from '../support/playground-process.ts'
import { type Pasted, ShellSession } from '../support/shell-session.ts'
import { constantsOf, isLook, type PageStep, stepsOf } from './page/page-steps.ts'

const PAGE = new URL('../../docs/guides/rest-api.md', import.meta.url)
const TEST_LIMIT_MS = 120_000
/** For what is on its way when it is looked for. */
const LOOK_LIMIT_MS = 10_000

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let playground: PlaygroundProcess
let shell: ShellSession

beforeAll(async () => {
  folder = await temporaryFolder()
  playground = startPlaygroundProcess(folder.path)
  const { kubectl } = await playground.facts()
  // The page speaks of the folder in which the playground keeps its state by default.
  await symlink(folder.path, join(folder.path, '.davit'))
  shell = await ShellSession.start({ cwd: folder.path, path: dirname(kubectl) })
}, TEST_LIMIT_MS)
afterAll(async () => {
  playground?.child.kill('SIGTERM')
  await playground?.ended
  await shell?.[Symbol.asyncDispose]()
  await folder?.[Symbol.asyncDispose]()
})

it('every command of the page on REST comes to what the page says', {
  timeout: TEST_LIMIT_MS,
}, async () => {
  const steps = stepsOf(await readFile(PAGE, 'utf8'))
  expect(steps.length).toBeGreaterThan(15)
  for (const step of steps) {
    const look = async () => {
      const pasted = await shell.paste(step.command)
      return { pasted, seen: seenIn(step, pasted) }
    }
    const wanted = { line: step.line, ...wantedOf(step) }
    if (isLook(step)) {
      await expect
        .poll(async () => (await look()).seen, { timeout: LOOK_LIMIT_MS, interval: 100 })
        .toEqual(wanted)
    } else {
      const { pasted, seen } = await look()
      expect(seen, pasted.stderr).toEqual(wanted)
    }
  }
})

/** The last line of the output of an example with an answer, and whether it is a rejection. */
function seenIn({ line, answer }: PageStep, { code, stdout, statuses }: Pasted) {
  const refused = statuses.filter((status) => status >= 400)
  const lastLine = stdout.trimEnd().split('\n').at(-1) ?? ''
  const last = answer === undefined ? {} : { answer: constantsOf(parse(lastLine)) }
  return { line, code, refused, ...last }
}

function wantedOf({ answer }: PageStep) {
  const refused = isProblem(answer) ? [answer.status] : []
  return { code: 0, refused, ...(answer === undefined ? {} : { answer: constantsOf(answer) }) }
}

function isProblem(answer: unknown): answer is { status: number } {
  return (
    typeof answer === 'object' && answer !== null && 'status' in answer && typeof answer.status === 'number'
  )
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return line
  }
}
