/** The dashboard for Grafana 11 or newer, which the chart installs as a ConfigMap. */
import type { Panel, Query, Row } from '../dashboard/panel.ts'
import { ROWS } from '../dashboard/panels.ts'
import type { Output } from '../generated-file.ts'

const FOLDER = 'charts/davit/files/dashboards'
/** The dashboard lets its reader choose the data source. */
const VARIABLE = 'datasource'
const DATA_SOURCE = { type: 'prometheus', uid: `$\{${VARIABLE}}` }
/** Of Grafana 11. */
const SCHEMA_VERSION = 39
/** In 24 columns; stats are narrower than the rest of their row. */
const WIDTHS = [3, 7, 7, 7]
const HEIGHT = 7

export const dashboard: Output = {
  owns: [FOLDER],
  files: () => [{ path: `${FOLDER}/davit.json`, content: `${JSON.stringify(grafana(), null, 2)}\n` }],
}

function grafana(): object {
  return {
    uid: 'davit',
    title: 'Davit',
    description: 'Webhooks, credentials and boxes. Made by `npm run generate`.',
    tags: ['davit'],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    links: [],
    annotations: { list: [] },
    templating: {
      list: [
        {
          name: VARIABLE,
          label: 'Data source',
          type: 'datasource',
          query: 'prometheus',
          current: {},
          hide: 0,
          includeAll: false,
          multi: false,
          options: [],
          refresh: 1,
          regex: '',
          skipUrlSync: false,
        },
      ],
    },
    panels: ROWS.flatMap(rowPanels).map((panel, index) => ({ id: index + 1, ...panel })),
  }
}

function rowPanels({ title, panels }: Row, index: number): object[] {
  const y = index * (HEIGHT + 1)
  const head = { type: 'row', title, collapsed: false, panels: [], gridPos: { h: 1, w: 24, x: 0, y } }
  const placed = panels.map((panel, column) => {
    const x = WIDTHS.slice(0, column).reduce((sum, width) => sum + width, 0)
    return { ...panelJson(panel), gridPos: { h: HEIGHT, w: WIDTHS[column] ?? 7, x, y: y + 1 } }
  })
  return [head, ...placed]
}

function panelJson(panel: Panel): object {
  const { kind, title, about, unit, queries, thresholds } = panel
  const isInstant = kind === 'table'
  return {
    type: kind === 'lines' ? 'timeseries' : kind,
    title,
    description: about,
    datasource: DATA_SOURCE,
    targets: queries.map((query, index) => target(query, index, isInstant)),
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        ...(thresholds ? { color: { mode: 'thresholds' } } : { color: { mode: 'palette-classic' } }),
        ...(thresholds ? { thresholds: { mode: 'absolute', steps: steps(thresholds) } } : {}),
        ...(kind === 'lines' ? { custom: { lineWidth: 1, fillOpacity: 8, showPoints: 'never' } } : {}),
      },
      overrides: [],
    },
    ...optionsOf(kind),
  }
}

function target({ expr, legend }: Query, index: number, instant: boolean): object {
  const refId = String.fromCharCode('A'.charCodeAt(0) + index)
  const format = instant ? 'table' : 'time_series'
  return { refId, datasource: DATA_SOURCE, expr, legendFormat: legend, instant, range: !instant, format }
}

function steps([yellow, red]: readonly [number, number]): object[] {
  return [
    { color: 'green', value: null },
    { color: 'yellow', value: yellow },
    { color: 'red', value: red },
  ]
}

function optionsOf(kind: Panel['kind']): object {
  if (kind === 'lines') {
    const legend = { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] }
    return { options: { legend, tooltip: { mode: 'multi', sort: 'desc' } } }
  }
  if (kind === 'stat') {
    return {
      options: {
        colorMode: 'background',
        graphMode: 'area',
        textMode: 'value',
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      },
    }
  }
  return {
    options: { showHeader: true, sortBy: [{ displayName: 'Value', desc: true }] },
    transformations: [{ id: 'organize', options: { excludeByName: { Time: true } } }],
  }
}
