/** The pipelines in .github/workflows, as far as they can be looked at without GitHub. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const FOLDER = join(ROOT, '.github', 'workflows')
const LINTER = join(ROOT, 'tools', 'workflows')
/** It is built the first time. */
const LINT_LIMIT_MS = 10 * 60_000

type Step = { uses?: string; run?: string; with?: Record<string, unknown> }
type Job = { 'timeout-minutes'?: number; permissions?: object; steps: Step[] }
type Workflow = { on: object; permissions: object; concurrency: object; jobs: Record<string, Job> }

const FILES = readdirSync(FOLDER)
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8')
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object }

/** @returns what actionlint says */
async function lint(...paths: string[]): Promise<string> {
  const args = ['tool', 'actionlint', '-no-color', '-shellcheck=', '-pyflakes=', ...paths]
  const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly' }
  return await promisify(execFile)('go', args, { cwd: LINTER, env, timeout: LINT_LIMIT_MS }).then(
    ({ stdout }) => stdout,
    ({ stdout, message }: { stdout: string; message: string }) => stdout || message,
  )
}

describe('the linter of workflows', () => {
  it(
    'finds nothing to complain of',
    async () => {
      expect(await lint(...FILES.map((name) => join(FOLDER, name)))).toBe('')
    },
    LINT_LIMIT_MS,
  )

  it(
    'complains of what GitHub does not know',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'davit-workflows-'))
      try {
        const file = join(folder, 'ci.yml')
        await writeFile(file, read('ci.yml').replaceAll('github.ref', 'runners.os'))
        expect(await lint(file)).toContain('undefined variable "runners"')
      } finally {
        await rm(folder, { recursive: true })
      }
    },
    LINT_LIMIT_MS,
  )
})

describe.each(FILES)('%s', (name) => {
  const workflow = parse(read(name)) as Workflow
  const jobs = Object.entries(workflow.jobs)
  const steps = jobs.flatMap(([, job]) => job.steps)

  it('may read the repository, and nothing else', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' })
    for (const [, job] of jobs) expect(job.permissions).toBeUndefined()
    const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
    expect(checkouts).toHaveLength(jobs.length)
    for (const step of checkouts) expect(step.with?.['persist-credentials']).toBe(false)
  })

  it('ends, and once for each branch', () => {
    for (const [, job] of jobs) expect(job['timeout-minutes']).toBeGreaterThan(0)
    expect(workflow.concurrency).toMatchObject({ group: expect.stringContaining('github.ref') })
  })

  it('names every action by its commit, and says which version that is', () => {
    const lines = read(name).match(/^.*\buses:.*$/gm) ?? []
    expect(lines.length).toBeGreaterThan(0)
    for (const line of lines) expect(line).toMatch(/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })

  it('runs commands that there are', () => {
    const named = steps.flatMap(({ run = '' }) =>
      [...run.matchAll(/npm (?:run )?(test\S*|check|audit)/g)].map(([, script]) => script),
    )
    expect(named.length).toBeGreaterThan(0)
    for (const script of named) expect(Object.keys(scripts)).toContain(script)
  })
})

it('the image is made twice, and has to be the same', () => {
  const { jobs } = parse(read('ci.yml')) as Workflow
  expect(jobs.image?.steps.at(-1)?.run).toMatch(/npm run test:image -- --twice$/)
})

it('dependencies are audited every day, and no push fails for what becomes known of them', () => {
  const { on, jobs } = parse(read('audit.yml')) as Workflow
  expect(on).toEqual({
    schedule: [{ cron: expect.stringMatching(/^\d+ \d+ \* \* \*$/) }],
    workflow_dispatch: null,
  })
  expect(jobs.audit?.steps.at(-1)?.run).toBe('npm run audit')
})

it('a push is checked, tested, made into an image and tried in a cluster', () => {
  const { jobs } = parse(read('ci.yml')) as Workflow
  expect(Object.keys(jobs).sort()).toEqual(['check', 'e2e', 'image', 'test'])
})
