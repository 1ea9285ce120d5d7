/** The pages about alerts and metrics name what there is. */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type AlertRule, allAlerts, ROOT } from './alert-rules.ts'
import { allExpressions, metricsIn, page } from './metric-names.ts'

const RUNBOOKS = globSync('docs/runbooks/*.md', { cwd: ROOT }).map((path) => path.replaceAll('\\', '/'))
const HEADINGS = ['Meaning', 'Diagnosis', 'Mitigation', 'Not the cause']
const MONITORING = page('docs/monitoring.md')
/** Held to what processes export by test/settings-page.test.ts. */
const KNOWN = new Set([...page('docs/settings.md').matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name]) => name))

const isOfRuntime = (name: string) => /^(process|nodejs)_/.test(name)
const unknown = (text: string) => metricsIn(text).filter((name) => !KNOWN.has(name) && !isOfRuntime(name))

test('each alert has its page, and each page its alert', () => {
  const wanted = allAlerts().map(({ alert }) => `docs/runbooks/${alert}.md`)
  expect(RUNBOOKS.toSorted()).toEqual(wanted.toSorted())
})

describe.each(allAlerts().map((rule): [string, AlertRule] => [rule.alert, rule]))(
  'the page of %s',
  (name, rule) => {
    const text = page(`docs/runbooks/${name}.md`)

    test('is the one that the alert names, and says the same of it', () => {
      expect(rule.annotations.runbook_url).toBe(`docs/runbooks/${name}.md`)
      expect(text.startsWith(`# ${name}\n`)).toBe(true)
      expect(text).toContain(rule.expr)
      expect(text).toContain(`\`${rule.labels.severity}\``)
      expect(text).toContain(rule.annotations.summary)
    })

    test('has the same sections as every other', () => {
      expect([...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)).toEqual(HEADINGS)
      expect(text).toContain('```sh\n')
    })

    test('names metrics and pages that there are', () => {
      expect(unknown(text)).toEqual([])
      const links = [...text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, link = '']) => link)
      for (const link of links) expect(() => readFileSync(`${ROOT}docs/runbooks/${link}`)).not.toThrow()
    })
  },
)

describe('the page about monitoring', () => {
  test.each(allAlerts())('has $alert with its severity', ({ alert, labels }) => {
    expect(MONITORING).toContain(`| [${alert}](runbooks/${alert}.md) | ${labels.severity} |`)
  })

  test('names metrics that there are', () => {
    expect(unknown(MONITORING)).toEqual([])
  })
})

test.each(allExpressions())('%s asks for metrics that there are', (_, expr) => {
  expect(unknown(expr)).toEqual([])
})
