import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { LONGEST_FILE } from './architecture/rules.ts'
import { violationsOf } from './architecture/violations.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

function repository(): Map<string, string> {
  const paths = globSync(
    ['src', 'playground', 'test-support', 'test', 'tools'].flatMap((folder) => [
      `${folder}/**/*.ts`,
      `${folder}/**/*.mts`,
    ]),
    { cwd: ROOT, exclude: ['**/node_modules/**'] },
  )
  return new Map(paths.map((path) => [path.replaceAll('\\', '/'), readFileSync(`${ROOT}/${path}`, 'utf8')]))
}

/** For the name of a test. */
function firstOf(text: string): string {
  return text.trim().split('\n')[0] ?? ''
}

/** Each is one file that breaks one rule; `want` is part of the only complaint. */
const REFUSED = [
  { given: ['src/lib/a.ts', "import { b } from '../kube/b.ts'"], want: ':1: imports src/kube/b.ts' },
  { given: ['src/lib/a.ts', "\nimport type { B } from '../apis/b.ts'"], want: ':2: imports src/apis/b.ts' },
  { given: ['src/apis/a.ts', "export * from '../webhooks/b.ts'"], want: 'imports src/webhooks/b.ts' },
  { given: ['src/kube/a.ts', "export { b } from '../cmd/config.ts'"], want: 'imports src/cmd/config.ts' },
  { given: ['src/kube/a.ts', "const b = await import('../net/b.ts')"], want: 'imports src/net/b.ts' },
  { given: ['src/ha/a.ts', "type B = import('../server/b.ts').B"], want: 'imports src/server/b.ts' },
  { given: ['src/ha/a.ts', "import { z } from 'zod'"], want: 'imports zod' },
  { given: ['src/lib/a.ts', "import { hmac } from 'crypto'"], want: 'written node:crypto' },
  {
    given: ['src/webhooks/a.ts', "import { b } from '../credentials/b.ts'"],
    want: 'imports src/credentials/b.ts',
  },
  { given: ['src/webhooks/a.ts', "import { b } from '../server/b.ts'"], want: 'imports src/server/b.ts' },
  { given: ['src/boxes/a.ts', "import { b } from '../webhooks/b.ts'"], want: 'imports src/webhooks/b.ts' },
  { given: ['src/server/a.ts', "import { b } from '../cmd/b.ts'"], want: 'imports src/cmd/b.ts' },
  { given: ['src/server/a.ts', "import { Agent } from 'undici'"], want: 'imports undici' },
  {
    given: ['src/net/a.ts', "const k = import('@kubernetes/client-node/dist/config.js')"],
    want: 'imports @kubernetes/client-node/dist/config.js',
  },
  { given: ['src/lib/a.ts', "import { SSMClient } from '@aws-sdk/client-ssm'"], want: 'imports @aws-sdk' },
  { given: ['src/elsewhere/b.ts', 'export const b = 1'], want: 'in no folder that the rules know' },
  { given: ['src/lib/a.ts', 'await import(name)'], want: 'imports a computed path' },
  { given: ['src/cmd/a.ts', "import { b } from '../../playground/b.ts'"], want: 'imports playground/b.ts' },
  { given: ['src/cmd/a.ts', "import { b } from '../main.ts'"], want: 'src/main.ts, which nobody may' },
  {
    given: ['playground/a.ts', "import { b } from '../tools/docgen/b.ts'"],
    want: 'imports tools/docgen/b.ts',
  },
  { given: ['playground/a.ts', "import { b } from '../test/support/b.ts'"], want: 'imports test/support' },
  {
    given: ['test-support/aws/a.ts', "import { b } from '../../playground/b.ts'"],
    want: 'imports playground/b.ts',
  },
  { given: ['src/main.ts', "import { b } from '../test/support/b.ts'"], want: 'imports test/support/b.ts' },
  { given: ['test/rest/a.ts', "import '../../src/main.ts'"], want: 'src/main.ts, which nobody may' },
  { given: ['src/lib/a.test.ts', "import '../main.ts'"], want: 'src/main.ts, which nobody may' },
  { given: ['src/lib/a.ts', '\n\nconst home = process.env.HOME'], want: ':3: reads process.env' },
  { given: ['src/cmd/a.ts', "const home = process['env']['HOME']"], want: 'reads process.env' },
  { given: ['src/cmd/a.ts', 'const { env } = process'], want: 'reads process.env' },
  { given: ['src/cmd/a.ts', 'const home = globalThis.process.env.HOME'], want: 'reads process.env' },
  { given: ['src/cmd/a.ts', "import { env } from 'node:process'"], want: 'reads process.env' },
  { given: ['src/lib/a.ts', 'let a\n'.repeat(601)], want: `the longest may have ${LONGEST_FILE}` },
  { given: ['src/lib/a.ts', "import { a } from './a.ts'"], want: 'cycle: src/lib/a.ts -> src/lib/a.ts' },
  { given: ['src/lib/a.ts', "import type { A } from './a.ts'"], want: 'cycle: src/lib/a.ts -> src/lib/a.ts' },
  { given: ['src/webhooks/events/plan.ts', 'export const at = Date.now()'], want: ':1: uses Date.now' },
  { given: ['src/webhooks/events/plan.ts', 'export const at = new Date()'], want: 'uses new Date()' },
  { given: ['src/webhooks/events/plan.ts', 'setTimeout(go, 1)'], want: 'uses setTimeout()' },
  {
    given: ['src/boxes/controller/plan.ts', "import { readFileSync } from 'node:fs'"],
    want: 'imports node:fs',
  },
] as const

const ALLOWED = [
  [
    'src/webhooks/events/plan.ts',
    "import { createHmac } from 'node:crypto'\nexport const at = (now: number) => new Date(now)",
  ],
  ['src/apis/a.ts', "import { z } from 'zod'\nimport { c } from '../lib/c.ts'"],
  ['src/kube/a.ts', "const k = await import('@kubernetes/client-node')\nimport './b.ts'"],
  ['src/credentials/aws/a.ts', "import { SSMClient } from '@aws-sdk/client-ssm'"],
  ['src/lib/a.test.ts', "import { it } from 'vitest'\nimport { c } from '../../test/support/fake-clock.ts'"],
  ['src/main.ts', "import { b } from './cmd/b.ts'"],
  ['src/cmd/config.ts', "import { z } from 'zod'\nconst home = process.env.HOME"],
  ['src/lib/a.ts', 'const environment = { env: 1 }.env + environment.env'],
  ['src/lib/a.ts', "// import { b } from '../kube/b.ts'\nconst text = 'process.env'"],
  ['src/lib/a.ts', 'let a\n'.repeat(600)],
  ['test/a.ts', "import type { A } from './a.ts'"],
] as const

describe('the architecture', () => {
  it('holds in every file', () => {
    const sources = repository()
    expect(sources.size).toBeGreaterThan(50)
    expect(violationsOf(sources)).toEqual([])
  }, 120_000)
})

describe('the rules of the architecture', () => {
  for (const { given, want } of REFUSED) {
    const [path, text] = given
    it(`refuse in ${path}: ${firstOf(text)}`, () => {
      expect(violationsOf(new Map([[path, text]]))).toEqual([expect.stringContaining(want)])
    })
  }

  for (const [path, text] of ALLOWED) {
    it(`allow in ${path}: ${firstOf(text)}`, () => {
      expect(violationsOf(new Map([[path, text]]))).toEqual([])
    })
  }

  it('refuse a cycle over several files, and name its way', () => {
    const sources = new Map([
      ['src/lib/a.ts', "import { b } from './b.ts'"],
      ['src/lib/b.ts', "export { c } from './c.ts'"],
      ['src/lib/c.ts', "import { a } from './a.ts'"],
      ['src/lib/d.ts', "import { a } from './a.ts'"],
    ])
    expect(violationsOf(sources)).toEqual([
      'src/lib/a.ts:1: is in a cycle: ' + 'src/lib/a.ts -> src/lib/b.ts -> src/lib/c.ts -> src/lib/a.ts',
    ])
  })

  it('find what spoils a decision in the files that it imports', () => {
    const sources = new Map([
      ['src/boxes/controller/plan.ts', "import { b } from './b.ts'\nimport type { C } from './c.ts'"],
      ['src/boxes/controller/b.ts', 'export const b = Math.random()'],
      ['src/boxes/controller/c.ts', 'export type C = 1\nexport const c = Math.random()'],
    ])
    expect(violationsOf(sources)).toEqual([
      'src/boxes/controller/b.ts:1: uses Math.random, and src/boxes/controller/plan.ts decides without I/O',
    ])
  })

  it('find the test runner behind a program that runs without it', () => {
    const sources = new Map([
      ['test/fuzz/main.ts', "import { bed } from './bed.ts'\nimport type { Test } from 'vitest'"],
      ['test/fuzz/bed.ts', "import { afterEach } from 'vitest'"],
      ['test/rest/lists.ts', "import { expect } from 'vitest'"],
    ])
    expect(violationsOf(sources)).toEqual([
      'test/fuzz/bed.ts:1: imports vitest, and test/fuzz/main.ts runs without it',
    ])
  })
})
