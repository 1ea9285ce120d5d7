import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { BoxConfigError, readBoxConfig } from './node-helpers.ts'

const PAGE = readFileSync(new URL('../../docs/guides/pull-images.md', import.meta.url), 'utf8')

it('is as the page says where nothing is set, or set to nothing', () => {
  const { credentialsPath, keepSeconds, parameterPrefix } = readBoxConfig({
    DAVIT_KEEP_SECONDS: '',
    OTHER: 'x',
  })
  expect(PAGE).toContain(`| \`DAVIT_CREDENTIALS\` | \`${credentialsPath}\` | an absolute path |`)
  expect(PAGE).toContain(`| \`DAVIT_PARAMETER_PREFIX\` | \`${parameterPrefix}\` |`)
  expect(PAGE).toContain(`| \`DAVIT_KEEP_SECONDS\` | \`${keepSeconds}\` | 0 to 86400 |`)
})

it('is what is set', () => {
  const environment = {
    DAVIT_CREDENTIALS: '/boxes/web',
    DAVIT_KEEP_SECONDS: '0',
    DAVIT_PARAMETER_PREFIX: '/platform/davit',
    DAVIT_OTHER: 'of no matter here',
  }
  expect(readBoxConfig(environment)).toEqual({
    credentialsPath: '/boxes/web',
    keepSeconds: 0,
    parameterPrefix: '/platform/davit',
  })
})

it('names every mistake at once', () => {
  const read = () => readBoxConfig({ DAVIT_CREDENTIALS: 'maps', DAVIT_KEEP_SECONDS: '86401' })
  expect(read).toThrow(BoxConfigError)
  expect(read).toThrow(
    'DAVIT_CREDENTIALS must be an absolute path; DAVIT_KEEP_SECONDS must be a whole number from 0 to 86400',
  )
})
