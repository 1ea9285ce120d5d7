/** What a pull waits for: nothing of the SDK is loaded for a question that needs none of it. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BoxBed } from '../support/box/box-bed.ts'

const HOST = 'registry.example.com:5000'
const PROGRAM = fileURLToPath(new URL('../../src/bin/docker-credential-davit.ts', import.meta.url))

/** Notes packages, and prints them at the end. */
const HOOKS = `
import { registerHooks } from 'node:module'
const loaded = new Set()
registerHooks({
  resolve(specifier, context, next) {
    const [name] = /^(@[^/]+\\/)?[a-z][^/:]*(?=\\/|$)/.exec(specifier) ?? []
    if (name && !context.parentURL?.includes('/node_modules/')) loaded.add(name)
    return next(specifier, context)
  },
})
process.on('exit', () => process.stderr.write(JSON.stringify([...loaded].sort())))
`

let bed: BoxBed

beforeAll(async () => {
  bed = await BoxBed.start()
  await bed.map('web', [
    await bed.token({ id: 'rc_main', registry: HOST, repositories: ['a/b'], secret: 'x' }),
  ])
})

afterAll(() => bed.stop())

it.each([
  ['version', '', []],
  ['list', '', ['zod']],
  ['get', 'quay.io', ['zod']],
  ['store', '{}', ['zod']],
  ['get', HOST, ['@aws-sdk/client-ssm', 'zod']],
])('%s of "%s" loads %j', async (action, input, packages) => {
  const hooks = `data:text/javascript,${encodeURIComponent(HOOKS)}`
  const { stderr } = await bed.run(process.execPath, ['--import', hooks, PROGRAM, action], { input })
  expect(JSON.parse(stderr.slice(stderr.lastIndexOf('[')))).toEqual(packages)
})
