/** Every alert of the chart, tried with promtool: with what it fires and what it says, and with what it does not. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ALERTS_FILE, type AlertRule, allAlerts } from './alert-rules.ts'
import type { Scene } from './cases/rule-case.ts'
import { RULE_CASES } from './rule-cases.ts'

const run = promisify(execFile)

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-rules-'))
})

afterAll(() => rm(folder, { recursive: true, force: true }))

/** @returns what promtool complains of; empty when all is as expected */
async function promtool(name: string, tests: readonly object[]): Promise<string> {
  const file = join(folder, `${name}.json`)
  await writeFile(file, JSON.stringify({ rule_files: [ALERTS_FILE], evaluation_interval: '1m', tests }))
  return await run('promtool', ['test', 'rules', file]).then(
    () => '',
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  )
}

function testOf(alertname: string, { series, minute }: Scene, alerts: readonly object[]): object {
  return {
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    alert_rule_test: [{ eval_time: `${minute}m`, alertname, exp_alerts: alerts }],
  }
}

test('promtool finds nothing wrong with the rules', async () => {
  const { stdout } = await run('promtool', ['check', 'rules', ALERTS_FILE])
  expect(stdout).toContain(`SUCCESS: ${allAlerts().length} rules found`)
})

test('there are cases for each alert, and for no other', () => {
  const names = allAlerts().map(({ alert }) => alert)
  expect(names.toSorted()).toEqual(Object.keys(RULE_CASES).toSorted())
  expect(new Set(names).size).toBe(names.length)
})

describe.each(allAlerts().map((rule): [string, AlertRule] => [rule.alert, rule]))('%s', (name, rule) => {
  const { fires, quiet } = RULE_CASES[name] ?? { fires: undefined, quiet: [] }

  test('fires, and says what is the matter', async () => {
    if (!fires) throw new Error('it has no case')
    const expected = {
      exp_labels: { ...rule.labels, ...fires.labels },
      exp_annotations: { ...rule.annotations, description: fires.says },
    }
    expect(await promtool(`${name}-fires`, [testOf(name, fires, [expected])])).toBe('')
  })

  test('does not fire though it is near', async () => {
    expect(quiet.length).toBeGreaterThan(0)
    const tests = quiet.map((scene) => testOf(name, scene, []))
    expect(await promtool(`${name}-quiet`, tests)).toBe('')
  })
})
