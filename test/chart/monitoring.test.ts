/** What the values of the chart make of the alerts and of the dashboard. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { CHART, type Manifest, RELEASE, template, type Values } from '../support/chart/helm.ts'

type Rule = { alert: string; labels: Record<string, string>; annotations: { runbook_url: string } }
type Spec = { groups: { name: string; rules: Rule[] }[] }

const FILE = parse(readFileSync(`${CHART}/files/alerts.yaml`, 'utf8')) as Spec

async function ofKind(kind: string, values: Values): Promise<Manifest[]> {
  const manifests = await template('helm4', values, RELEASE)
  return manifests.filter((manifest) => manifest.kind === kind)
}

test('without values the alerts are those of the file, to the letter, but for paths of the repository', async () => {
  const [rule] = await ofKind('PrometheusRule', { metrics: { prometheusRule: { enabled: true } } })
  const groups = FILE.groups.map((group) => ({
    ...group,
    rules: group.rules.map(({ annotations: { runbook_url: _, ...annotations }, ...rest }) => ({
      ...rest,
      annotations,
    })),
  }))
  expect(rule?.spec).toEqual({ groups })
})

test('labels, the address of runbooks and what is left out reach every alert', async () => {
  const [made] = await ofKind('PrometheusRule', {
    metrics: {
      prometheusRule: {
        enabled: true,
        labels: { release: 'monitoring' },
        annotations: { note: 'ours' },
        alertLabels: { team: 'platform' },
        disabled: ['DavitOwnersNotNotified'],
        runbooks: 'https://git.example.com/davit/docs/troubleshooting/alerts/',
      },
    },
  })
  expect(made?.metadata.labels).toMatchObject({ release: 'monitoring' })
  expect(made?.metadata.annotations).toEqual({ note: 'ours' })
  const spec = made?.spec as Spec | undefined
  const rules = spec?.groups.flatMap((group) => group.rules)
  const wanted = FILE.groups
    .flatMap((group) => group.rules)
    .filter(({ alert }) => alert !== 'DavitOwnersNotNotified')
    .map((rule) => ({
      ...rule,
      labels: { ...rule.labels, team: 'platform' },
      annotations: {
        ...rule.annotations,
        runbook_url: `https://git.example.com/davit/docs/troubleshooting/alerts/${rule.alert}.md`,
      },
    }))
  expect(rules).toEqual(wanted)
})

test('the dashboard is in a ConfigMap that the sidecar of Grafana finds, as it is in the file', async () => {
  const maps = await ofKind('ConfigMap', { metrics: { dashboards: { enabled: true } } })
  const [map] = maps.filter(({ metadata }) => metadata.labels?.grafana_dashboard === '1')
  const { data } = map as Manifest & { data: Record<string, string> }
  expect(data['davit.json']).toBe(readFileSync(`${CHART}/files/dashboards/davit.json`, 'utf8'))
})
