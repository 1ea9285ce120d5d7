import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { parseConfig, processVariables } from './config.ts'
import { runPrintConfig } from './print-config.ts'

let written: string

beforeEach(() => {
  written = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written += text
    return true
  })
})

afterEach(() => vi.restoreAllMocks())

test('every setting is printed once, and its default is one that the program takes', async () => {
  expect(await runPrintConfig({})).toBe(0)
  const lines = written.trimEnd().split('\n')
  const named = lines.map((line) => /^(?:# )?([A-Z_]+)/.exec(line)?.[1])
  expect(named).toEqual(Object.keys(processVariables.shape))
  const defaults = lines.flatMap((line) => {
    const [, variable = '', value = ''] = /^([A-Z_]+)=(.*) {2}# default$/.exec(line) ?? []
    return variable === '' ? [] : [[variable, value] as const]
  })
  expect(defaults.length).toBeGreaterThan(40)
  const { replica: _, ...given } = parseConfig(Object.fromEntries(defaults))
  const { replica: __, ...standard } = parseConfig({})
  expect(given).toEqual(standard)
})

test('what is set is printed as it was given, and a secret is not', async () => {
  await runPrintConfig({
    DAVIT_LEASE_DURATION: '90s',
    DAVIT_LOG_LEVEL: '',
    DAVIT_SMTP_URL: 'smtp://user:canary@mail:25',
    DAVIT_SMTP_FROM: 'davit@example.com',
  })
  expect(written).toContain('DAVIT_LEASE_DURATION=90s\n')
  expect(written).toContain('DAVIT_LOG_LEVEL=info  # default\n')
  expect(written).toContain('DAVIT_SMTP_URL=(secret)\n')
  expect(written).toContain('# DAVIT_BAKE_IMAGE is not set\n')
  expect(written).not.toContain('canary')
})

test('with mistakes nothing is printed but them', async () => {
  await expect(runPrintConfig({ DAVIT_LEASE_DURATION: '1', DAVIT_LOG_LEVEL: 'loud' })).rejects.toThrow(
    /2 errors.*\n.*DAVIT_LOG_LEVEL.*\n.*DAVIT_LEASE_DURATION="1": must be a duration from 3s to 5m/,
  )
  expect(written).toBe('')
})
