import { expect, test } from 'vitest'
import type { Panel } from '../../../tools/docgen/dashboard/panel.ts'
import { drawRows, type Series } from './draw.ts'
import { shownValue } from './shown-value.ts'

const lines: Panel = { kind: 'lines', title: 'Calls', about: '', unit: 's', queries: [] }
const stat: Panel = { kind: 'stat', title: 'Late', about: '', unit: 's', queries: [], thresholds: [10, 60] }
const table: Panel = { kind: 'table', title: 'Worst', about: '', unit: 's', queries: [] }

function drawn(series: ReadonlyMap<Panel, readonly Series[]>): string {
  return drawRows([{ title: 'Is anything late?', panels: [stat, lines, table] }], {
    from: 100,
    to: 110,
    seriesOf: (panel) => series.get(panel) ?? [],
    marks: [104, 107],
    caption: ['Once <a> second', 'A: it began'],
  })
}

function one(values: readonly number[], labels = {}): Series {
  return { legend: 'one', labels, samples: values.map((value, at) => ({ at: 100 + at, value })) }
}

test('a picture has its titles, its legend and its caption, with what has a meaning in XML escaped', () => {
  const svg = drawn(new Map([[lines, [one([1, 2, 3])]]]))
  for (const text of ['Is anything late?', 'Calls', 'Worst', '>one<', 'Once &lt;a&gt; second', 'A: it began'])
    expect(svg).toContain(text)
})

test('what was done has a letter, where it was done', () => {
  const svg = drawn(new Map([[lines, [one([1, 2, 3])]]]))
  const marks = [...svg.matchAll(/<path d="M([\d.]+) [^"]*"[^>]*stroke-dasharray/g)].map(([, x]) => Number(x))
  expect(marks).toHaveLength(2)
  expect(marks[0]).toBeLessThan(marks[1] ?? 0)
  expect(svg.indexOf('>A<')).toBeLessThan(svg.indexOf('>B<'))
})

test('a line has a gap where nothing was measured', () => {
  const whole = drawn(new Map([[lines, [one([1, 2, 3, 4])]]]))
  const samples = [0, 1, 2, 5, 6].map((at) => ({ at: 100 + at, value: at }))
  const broken = drawn(new Map([[lines, [{ ...one([]), samples }]]]))
  const pieces = (svg: string) => {
    const [path = ''] = /<path d="[^"]+" fill="none"[^>]* stroke="#1f60c4" stroke-width="1.6"/.exec(svg) ?? []
    return path.match(/M/g)?.length
  }
  expect([pieces(whole), pieces(broken)]).toEqual([1, 2])
})

test.each([
  [3, '#37872d'],
  [12, '#b08800'],
  [90, '#c4162a'],
])('%d seconds have the colour %s', (value, colour) => {
  expect(drawn(new Map([[stat, [one([value])]]]))).toMatch(new RegExp(`fill="${colour}"[^>]*>${value}s<`))
})

test('a table has the greatest value first, with its labels', () => {
  const series = [one([3], { endpoint_name: 'well' }), one([70], { endpoint_name: 'bad' })]
  const svg = drawn(new Map([[table, series]]))
  expect(svg.indexOf('>bad<')).toBeGreaterThan(0)
  expect(svg.indexOf('>bad<')).toBeLessThan(svg.indexOf('>well<'))
})

test('what there is no figure of is drawn without one', () => {
  expect(drawn(new Map())).not.toContain('NaN')
  expect(drawn(new Map([[lines, [one([0, 0])]]]))).not.toContain('NaN')
})

test.each([
  [0.25, 's', '250ms'],
  [0, 's', '0s'],
  [1_234_567, 'bytes', '1.2MB'],
  [0.0523, 'percentunit', '5.23%'],
  [25, 'ops', '25/s'],
  [12_345, 'short', '12K'],
] as const)('%d in %s reads %s', (value, unit, words) => {
  expect(shownValue(value, unit)).toBe(words)
})
