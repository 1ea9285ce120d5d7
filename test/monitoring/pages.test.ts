/** The pages about alerts and metrics name what there is. */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type AlertRule, allAlerts, ROOT } from './alert-rules.ts'
import { allExpressions, metricsIn, page } from './metric-names.ts'

const INDEX = 'docs/troubleshooting/alerts/README.md'
const RUNBOOKS = globSync('docs/troubleshooting/alerts/*.md', { cwd: ROOT })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path !== INDEX)
const HEADINGS = ['Meaning', 'Diagnosis', 'Mitigation', 'Not the cause']
const MONITORING = page('docs/guides/monitor.md')
/** Held to what processes export by test/settings-page.test.ts. */
const KNOWN = new Set(
  [...page('docs/reference/settings.md').matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name]) => name),
)

const isOfRuntime = (name: string) => /^(process|nodejs)_/.test(name)
const unknown = (text: string) => metricsIn(text).filter((name) => !KNOWN.has(name) && !isOfRuntime(name))

test('each alert has its page, and each page its alert', () => {
  const wanted = allAlerts().map(({ alert }) => `docs/troubleshooting/alerts/${alert}.md`)
  expect(RUNBOOKS.toSorted()).toEqual(wanted.toSorted())
})

describe.each(allAlerts().map((rule): [string, AlertRule] => [rule.alert, rule]))(
  'the page of %s',
  (name, rule) => {
    const text = page(`docs/troubleshooting/alerts/${name}.md`)

    test('is the one that the alert names, and says the same of it', () => {
      expect(rule.annotations.runbook_url).toBe(`docs/troubleshooting/alerts/${name}.md`)
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
      for (const link of links)
        expect(() => readFileSync(`${ROOT}docs/troubleshooting/alerts/${link}`)).not.toThrow()
    })
  },
)

describe('the page about monitoring', () => {
  test.each(allAlerts())('has $alert with its severity', ({ alert, labels }) => {
    expect(MONITORING).toContain(`| [${alert}](../troubleshooting/alerts/${alert}.md) | ${labels.severity} |`)
  })

  test('names metrics that there are', () => {
    expect(unknown(MONITORING)).toEqual([])
  })
})

test.each(allAlerts())('the index has $alert with its severity', ({ alert, labels }) => {
  expect(page(INDEX)).toContain(`| [${alert}](${alert}.md) | ${labels.severity} |`)
})

test.each(allExpressions())('%s asks for metrics that there are', (_, expr) => {
  expect(unknown(expr)).toEqual([])
})
