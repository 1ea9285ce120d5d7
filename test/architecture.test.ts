import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { LONGEST_FILE } from './architecture/rules.ts'
import { violationsOf } from './architecture/violations.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

function repository(): Map<string, string> {
  const paths = globSync(['src/**/*.ts', 'test/**/*.ts', 'tools/**/*.ts', 'tools/**/*.mts'], {
    cwd: ROOT,
    exclude: ['**/node_modules/**'],
  })
  return new Map(paths.map((path) => [path.replaceAll('\\', '/'), readFileSync(`${ROOT}/${path}`, 'utf8')]))
}

/** For the name of a test. */
function firstOf(text: string): string {
  return text.trim().split('\n')[0] ?? ''
}

/** Each is one file that breaks one rule; `want` is part of the only complaint. */
const REFUSED = [
  { given: ['src/domain/a.ts', "import { b } from '../runtime/b.ts'"], want: ':1: imports src/runtime/b.ts' },
  {
    given: ['src/domain/a.ts', "\nimport type { B } from '../ports/b.ts'"],
    want: ':2: imports src/ports/b.ts',
  },
  { given: ['src/domain/a.ts', "export * from '../controllers/b.ts'"], want: 'imports src/controllers/b.ts' },
  { given: ['src/domain/a.ts', "export { b } from '../config.ts'"], want: 'imports src/cmd/config.ts' },
  {
    given: ['src/domain/a.ts', "const b = await import('../adapters/http/b.ts')"],
    want: 'imports src/adapters/',
  },
  { given: ['src/domain/a.ts', "type B = import('../ports/b.ts').B"], want: 'imports src/ports/b.ts' },
  { given: ['src/domain/a.ts', "import { z } from 'zod'"], want: 'imports zod' },
  { given: ['src/domain/a.ts', "import { readFileSync } from 'node:fs'"], want: 'imports node:fs' },
  { given: ['src/domain/a.ts', "import { hmac } from 'crypto'"], want: 'written node:crypto' },
  { given: ['src/api/a.ts', "import { b } from '../domain/b.ts'"], want: 'imports src/domain/b.ts' },
  { given: ['src/api/a.ts', "import { hash } from 'node:crypto'"], want: 'imports node:crypto' },
  { given: ['src/ports/a.ts', "import { b } from '../api/b.ts'"], want: 'types of src/api/ only' },
  { given: ['src/ports/a.ts', "import { type B, c } from '../api/b.ts'"], want: 'types of src/api/ only' },
  { given: ['src/ports/a.ts', "import '../api/b.ts'"], want: 'types of src/api/ only' },
  {
    given: ['src/runtime/a.ts', "import type { B } from '../api/webhook-event.ts'"],
    want: 'src/apis/meta.ts',
  },
  {
    given: ['src/runtime/a.ts', "import { b } from '../adapters/system/b.ts'"],
    want: 'imports src/adapters/',
  },
  { given: ['src/controllers/a.ts', "import { Agent } from 'undici'"], want: 'imports undici' },
  { given: ['src/controllers/a.ts', "import { b } from '../rest/b.ts'"], want: 'imports src/rest/b.ts' },
  { given: ['src/controllers/a.ts', "import { b } from '../roles/b.ts'"], want: 'imports src/roles/b.ts' },
  {
    given: ['src/rest/a.ts', "import { b } from '../controllers/b.ts'"],
    want: 'imports src/controllers/b.ts',
  },
  { given: ['src/rest/a.ts', "import { b } from '../runtime/b.ts'"], want: 'imports src/runtime/b.ts' },
  {
    given: ['src/adapters/http/a.ts', "import { b } from '../smtp/b.ts'"],
    want: 'imports src/adapters/smtp/b.ts',
  },
  {
    given: ['src/adapters/http/a.ts', "import { b } from '../../domain/b.ts'"],
    want: 'imports src/domain/b.ts',
  },
  {
    given: ['src/adapters/http/a.ts', "const k = import('@kubernetes/client-node/dist/config.js')"],
    want: 'imports @kubernetes/client-node/dist/config.js',
  },
  {
    given: ['src/adapters/smtp/a.ts', "import { SSMClient } from '@aws-sdk/client-ssm'"],
    want: 'imports @aws-sdk',
  },
  { given: ['src/adapters/b.ts', 'export const b = 1'], want: 'in no folder that the rules know' },
  { given: ['src/adapters/system/a.ts', 'await import(name)'], want: 'imports a computed path' },
  {
    given: ['src/roles/a.ts', "import { b } from '../playground/b.ts'"],
    want: 'imports src/playground/b.ts',
  },
  { given: ['src/roles/a.ts', "import { b } from '../main.ts'"], want: 'src/main.ts, which nobody may' },
  { given: ['src/playground/a.ts', "import { b } from '../tools/b.ts'"], want: 'imports tools/docgen/b.ts' },
  {
    given: ['src/playground/a.ts', "import { b } from '../../test/support/b.ts'"],
    want: 'imports test/support',
  },
  {
    given: ['tools/docgen/a.ts', "import { b } from '../playground/b.ts'"],
    want: 'imports src/playground/b.ts',
  },
  { given: ['src/main.ts', "import { b } from '../test/support/b.ts'"], want: 'imports test/support/b.ts' },
  { given: ['test/rest/a.ts', "import '../../src/main.ts'"], want: 'src/main.ts, which nobody may' },
  { given: ['src/domain/a.test.ts', "import '../main.ts'"], want: 'src/main.ts, which nobody may' },
  { given: ['src/domain/a.ts', '\n\nconst home = process.env.HOME'], want: ':3: reads process.env' },
  { given: ['src/roles/a.ts', "const home = process['env']['HOME']"], want: 'reads process.env' },
  { given: ['src/roles/a.ts', 'const { env } = process'], want: 'reads process.env' },
  { given: ['src/roles/a.ts', 'const home = globalThis.process.env.HOME'], want: 'reads process.env' },
  { given: ['src/roles/a.ts', "import { env } from 'node:process'"], want: 'reads process.env' },
  { given: ['src/domain/a.ts', 'let a\n'.repeat(301)], want: `the longest may have ${LONGEST_FILE}` },
  {
    given: ['src/domain/a.ts', "import { a } from './a.ts'"],
    want: 'cycle: src/domain/a.ts -> src/domain/a.ts',
  },
] as const

const ALLOWED = [
  ['src/domain/a.ts', "import { createHmac } from 'node:crypto'\nimport type { B } from '../api/b.ts'"],
  ['src/ports/a.ts', "import type { B } from '../api/b.ts'\nimport { type C } from '../api/c.ts'"],
  ['src/runtime/a.ts', "import { b } from '../api/meta.ts'\nimport type { C } from '../ports/c.ts'"],
  ['src/adapters/kubernetes/a.ts', "const k = await import('@kubernetes/client-node')\nimport './b.ts'"],
  ['src/adapters/aws/a.ts', "import { SSMClient } from '@aws-sdk/client-ssm'"],
  [
    'src/domain/a.test.ts',
    "import { it } from 'vitest'\nimport { c } from '../../test/support/fake-clock.ts'",
  ],
  ['src/main.ts', "import { b } from './adapters/http/b.ts'\nimport { c } from './roles/c.ts'"],
  ['src/cmd/config.ts', "import { z } from 'zod'\nconst home = process.env.HOME"],
  ['src/domain/a.ts', 'const environment = { env: 1 }.env + environment.env'],
  ['src/domain/a.ts', "// import { b } from '../runtime/b.ts'\nconst text = 'process.env'"],
  ['src/domain/a.ts', "import type { A } from './a.ts'"],
  ['src/domain/a.ts', 'let a\n'.repeat(300)],
] as const

describe('the architecture', () => {
  it('holds in every file', () => {
    const sources = repository()
    expect(sources.size).toBeGreaterThan(50)
    expect(violationsOf(sources)).toEqual([])
  })
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
      ['src/domain/a.ts', "import { b } from './b.ts'"],
      ['src/domain/b.ts', "export { c } from './c.ts'"],
      ['src/domain/c.ts', "import { a } from './a.ts'"],
      ['src/domain/d.ts', "import { a } from './a.ts'"],
    ])
    expect(violationsOf(sources)).toEqual([
      'src/domain/a.ts:1: is in a cycle: ' +
        'src/domain/a.ts -> src/domain/b.ts -> src/domain/c.ts -> src/domain/a.ts',
    ])
  })
})
