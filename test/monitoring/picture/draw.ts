/** Draws rows of the dashboard with what Prometheus has answered, as one SVG for a page: the same from the same data. */
import { type EChartsOption, type GraphicComponentOption, init, setPlatformAPI } from 'echarts'
import type { Panel, Row } from '../../../tools/docgen/dashboard/panel.ts'
import { shownValue } from './shown-value.ts'

/** One series: the text of its legend, and its samples in order, in seconds since 1970. */
export type Series = { legend: string; labels: Readonly<Record<string, string>>; samples: readonly Sample[] }
export type Sample = { at: number; value: number }

/** What was asked of Prometheus, and when. `seriesOf` has the series of all queries of a panel, in their order. */
export type PictureData = {
  from: number
  to: number
  seriesOf: (panel: Panel) => readonly Series[]
  /** When something was done, in seconds since 1970; drawn into every panel with time, with a letter each. */
  marks?: readonly number[]
  /** Lines beneath the picture. */
  caption: readonly string[]
}

type Box = { x: number; y: number; width: number; height: number }
type Drawn = { panel: Panel; box: Box; series: readonly Series[] }

const WIDTH = 1200
const MARGIN = 16
const GAP = 12
const ROW_HEAD = 34
const PANEL_HEIGHT = 228
const STAT_WIDTH = 150
const ROW_HEIGHT = ROW_HEAD + PANEL_HEIGHT + GAP
const CAPTION_LINE = 18
const TITLE_HEIGHT = 42
const TABLE_LINE = 20
const LEGEND_HEIGHT = 46
const FONT = 'Inter, Helvetica, Arial, sans-serif'
const TEXT = '#24292e'
const FAINT = '#6b7280'
const EDGE = '#dcdfe4'
const PAGE = '#f4f5f7'
/** A */
const FIRST_LETTER = 65
const STAT_COLOURS = ['#37872d', '#b08800', '#c4162a'] as const
const LINES = ['#1f60c4', '#37872d', '#e0752d', '#8f3bb8', '#c4162a', '#0f8a8a', '#b08800', '#6e6e6e']

/** Without a canvas nothing can be measured; too narrow, and legends run into each other. */
const WIDTH_OF_LETTER = 0.56

export function drawRows(rows: readonly Row[], data: PictureData): string {
  const height = MARGIN + rows.length * ROW_HEIGHT + data.caption.length * CAPTION_LINE + MARGIN
  setPlatformAPI({ measureText: (text, font) => ({ width: text.length * WIDTH_OF_LETTER * sizeOf(font) }) })
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  try {
    chart.setOption(optionOf(rows, data))
    return `${chart.renderToSVGString()}\n`
  } finally {
    chart.dispose()
  }
}

/** @param font as in CSS, with its size in pixels */
function sizeOf(font = ''): number {
  return Number(/([\d.]+)px/.exec(font)?.[1] ?? 12)
}

function optionOf(rows: readonly Row[], data: PictureData): EChartsOption {
  const panels = rows.flatMap(({ panels: ofRow }, index) => laidOut(ofRow, MARGIN + index * ROW_HEIGHT, data))
  const heads = rows.map(({ title }, index) =>
    words(title, { x: MARGIN, y: MARGIN + index * ROW_HEIGHT + 8, size: 17, weight: 600 }),
  )
  const charts = panels.filter(({ panel }) => panel.kind === 'lines')
  return {
    animation: false,
    backgroundColor: PAGE,
    textStyle: { fontFamily: FONT },
    color: LINES,
    graphic: [
      ...heads,
      ...panels.flatMap(frameOf),
      ...data.caption.map((line, index) => {
        const y = MARGIN + rows.length * ROW_HEIGHT + index * CAPTION_LINE
        return words(line, { x: MARGIN, y, size: 12, colour: FAINT })
      }),
    ],
    grid: charts.map(({ box }) => ({
      left: box.x + 10,
      top: box.y + TITLE_HEIGHT,
      width: box.width - 24,
      height: box.height - TITLE_HEIGHT - LEGEND_HEIGHT - 8,
      containLabel: true,
    })),
    xAxis: charts.map((_, gridIndex) => ({
      gridIndex,
      type: 'value',
      min: 0,
      max: Math.round(data.to - data.from),
      splitNumber: 4,
      splitLine: { show: false },
      axisLabel: { formatter: '{value} s', color: FAINT, fontSize: 11, showMaxLabel: false },
    })),
    yAxis: charts.map(({ panel, series }, gridIndex) => ({
      gridIndex,
      type: 'value',
      min: 0,
      splitNumber: 4,
      // An axis of nothing but noughts would have a scale of its own making.
      ...(series.some(({ samples }) => samples.some(({ value }) => value > 0)) ? {} : { max: 1 }),
      splitLine: { lineStyle: { color: EDGE } },
      axisLabel: { formatter: (value: number) => shownValue(value, panel.unit), color: FAINT, fontSize: 11 },
    })),
    legend: charts.map(({ box, series }, index) => ({
      data: series.map((_, at) => nameOf(index, at)),
      formatter: (name: string) => series[Number(name.split('.')[1])]?.legend ?? '',
      left: box.x + 10,
      top: box.y + box.height - LEGEND_HEIGHT - 6,
      width: box.width - 20,
      height: LEGEND_HEIGHT,
      itemWidth: 14,
      itemHeight: 2,
      itemGap: 8,
      icon: 'rect',
      selectedMode: false,
      textStyle: { color: TEXT, fontSize: 11 },
    })),
    series: charts.flatMap(({ series }, index) =>
      series.map(({ samples }, at) => ({
        name: nameOf(index, at),
        type: 'line' as const,
        xAxisIndex: index,
        yAxisIndex: index,
        silent: true,
        showSymbol: false,
        lineStyle: { width: 1.6 },
        color: LINES[at % LINES.length] ?? TEXT,
        data: pointsOf(samples, data.from),
        ...(at === 0 ? { markLine: marksOf(data) } : {}),
      })),
    ),
  }
}

function marksOf({ marks = [], from }: PictureData) {
  return {
    silent: true,
    symbol: 'none',
    lineStyle: { color: FAINT, type: 'dashed' as const, width: 1 },
    data: marks.map((at, index) => ({
      xAxis: at - from,
      label: {
        formatter: String.fromCharCode(FIRST_LETTER + index),
        color: FAINT,
        fontSize: 10,
        distance: 2,
      },
    })),
  }
}

/** Names are of the whole picture: of which chart, and which line of it. */
function nameOf(chart: number, line: number): string {
  return `${chart}.${line}`
}

function laidOut(panels: readonly Panel[], y: number, data: PictureData): Drawn[] {
  const stats = panels.filter(({ kind }) => kind === 'stat').length
  const left = WIDTH - 2 * MARGIN - stats * STAT_WIDTH - (panels.length - 1) * GAP
  let x = MARGIN
  return panels.map((panel) => {
    const width = panel.kind === 'stat' ? STAT_WIDTH : left / (panels.length - stats)
    const box = { x, y: y + ROW_HEAD, width, height: PANEL_HEIGHT }
    x += width + GAP
    const series = data.seriesOf(panel).filter(({ samples }) => samples.length > 0)
    return { panel, box, series }
  })
}

/** What was not measured is a gap. */
function pointsOf(samples: readonly Sample[], from: number): [number, number | null][] {
  const step = Math.min(...samples.slice(1).map(({ at }, index) => at - (samples[index]?.at ?? at)))
  return samples.flatMap(({ at, value }, index): [number, number | null][] => {
    const before = samples[index - 1]?.at ?? at
    const point: [number, number] = [at - from, value]
    return at - before > step * 1.5 ? [[before + step - from, null], point] : [point]
  })
}

function frameOf({ panel, box, series }: Drawn): GraphicComponentOption[] {
  const frame = {
    type: 'rect' as const,
    z: -1,
    silent: true,
    shape: { ...box, r: 4 },
    style: { fill: '#ffffff', stroke: EDGE, lineWidth: 1 },
  }
  const at = { x: box.x + 10, y: box.y + 10 }
  const title = words(panel.title, { ...at, size: 13, weight: 600, width: box.width - 20 })
  if (panel.kind === 'stat') return [frame, title, statOf(panel, box, series)]
  return [frame, title, ...(panel.kind === 'table' ? tableOf(panel, box, series) : [])]
}

function statOf({ unit, thresholds = [1, 2] }: Panel, box: Box, series: readonly Series[]) {
  const value = series[0]?.samples.at(-1)?.value ?? 0
  const colour = STAT_COLOURS[thresholds.filter((threshold) => value >= threshold).length] ?? TEXT
  const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 - 14 }
  return words(shownValue(value, unit), { ...at, size: 30, weight: 600, colour, align: 'center' })
}

/** The labels of each series, and its newest value; the greatest first. */
function tableOf({ unit }: Panel, box: Box, series: readonly Series[]): GraphicComponentOption[] {
  // The organization before what it has.
  const columns = [...new Set(series.flatMap(({ labels }) => Object.keys(labels)))].sort().reverse()
  const newest = series
    .map(({ labels, samples }) => ({ labels, value: samples.at(-1)?.value ?? 0 }))
    .sort((a, b) => b.value - a.value)
  const head = [...columns.map((name) => name.replace(/_name$/, '')), 'for']
  const lines = newest.map(({ labels, value }) => [
    ...columns.map((name) => labels[name] ?? ''),
    shownValue(value, unit),
  ])
  const width = (box.width - 20) / head.length
  const room = Math.floor((box.height - TITLE_HEIGHT) / TABLE_LINE)
  return [head, ...lines].slice(0, room).flatMap((cells, line) =>
    cells.map((cell, column) =>
      words(cell, {
        x: box.x + 10 + column * width,
        y: box.y + TITLE_HEIGHT + 4 + line * TABLE_LINE,
        size: 12,
        colour: line === 0 ? FAINT : TEXT,
        width: width - 8,
      }),
    ),
  )
}

type Words = {
  x: number
  y: number
  size: number
  weight?: number
  colour?: string
  align?: 'left' | 'center'
  /** Beyond it they end with dots. */
  width?: number
}

function words(text: string, { x, y, size, weight = 400, colour = TEXT, align = 'left', width }: Words) {
  const font = `${weight} ${size}px ${FONT}`
  const cut = width === undefined ? {} : { width, overflow: 'truncate' as const }
  return { type: 'text' as const, silent: true, x, y, style: { text, fill: colour, font, align, ...cut } }
}
