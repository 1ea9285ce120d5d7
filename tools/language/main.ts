/**
 * Checks the English of every text that a user of Davit meets: pages, strings in code, comments of values, alerts and dashboards.
 * `--list` prints all of them, with their places.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { ROOT } from '../contract/root.ts'
import { sourceFiles } from '../contract/source-files.ts'
import { logCallsOf, stringsOf, titlesOf } from './code.ts'
import { type Piece, proseOf } from './markdown.ts'
import { findingsIn, MAX_TITLE_WORDS, wordsOf } from './rules.ts'

type Text = Piece & { path: string }
type Finding = Text & { says: string }

const PAGES = ['*.md', '{charts,docs,examples,src}/**/*.md', 'site/pages/*.md', 'contract/*.md']
/** It lists the retired words. */
const NOT_CHECKED = 'docs/contributing/glossary.md'
const CODE = ['src/**/*.ts', 'playground/**/*.ts', 'playground/**/*.mjs', 'tools/setup/**/*.mjs']
const PROBLEMS = 'src/server/http/problems.ts'
/** Files whose comments explain settings or commands to users. */
const COMMENTED = ['charts/davit/values.yaml', 'examples/**/*.yaml', 'examples/*.sh', 'Dockerfile']
const TEMPLATES = ['charts/davit/templates/**/*.yaml', 'charts/davit/templates/**/*.tpl']
const NOTES = 'charts/davit/templates/NOTES.txt'
const YAML_TEXTS = ['charts/davit/files/alerts.yaml', 'charts/davit/files/dashboards/*.json']

/** Fields of alerts and dashboards that people read. */
const TEXT_FIELDS = new Set(['title', 'description', 'summary', 'legendFormat', 'content', 'text'])

/** `verb_object`, so that searches and runbooks can name it. */
const EVENT = /^[a-z0-9]+(_[a-z0-9]+){1,5}$/

const sources = sourceFiles(filesOf(CODE))
const { values: options } = parseArgs({ options: { list: { type: 'boolean', default: false } } })
const texts = [...pages(), ...strings(), ...comments(), ...configuration()]
if (options.list) for (const { path, line, text } of texts) console.log(`${path}:${line}: ${text}`)
else tell([...texts.flatMap(findings), ...titles(), ...logs()])

function findings(text: Text): Finding[] {
  return findingsIn(text.text).map((says) => ({ ...text, says }))
}

function tell(found: readonly Finding[]): void {
  for (const { path, line, says, text } of found)
    console.log(`${path}:${line}: ${says}\n    ${text.slice(0, 160)}`)
  console.log(`${texts.length} texts, ${found.length} findings`)
  process.exitCode = found.length === 0 ? 0 : 1
}

function pages(): Text[] {
  const paths = filesOf(PAGES).filter((path) => path !== NOT_CHECKED)
  return paths.flatMap((path) => proseOf(read(path)).map((piece) => ({ ...piece, path })))
}

function strings(): Text[] {
  return sources.flatMap((file) =>
    stringsOf(file, lineCounter(file.path)).map((piece) => ({ ...piece, path: file.path })),
  )
}

/** Titles of problems are noun phrases. */
function titles(): Finding[] {
  const file = sources.find(({ path }) => path === PROBLEMS)
  if (!file) throw new Error(`${PROBLEMS} does not exist`)
  return titlesOf(file, lineCounter(PROBLEMS))
    .filter(({ text }) => wordsOf(text) > MAX_TITLE_WORDS)
    .map((piece) => ({ ...piece, path: PROBLEMS, says: `a title has at most ${MAX_TITLE_WORDS} words` }))
}

/** A log call has a code of its own kind, and a message that starts in lower case and has no full stop. */
function logs(): Finding[] {
  return sources.flatMap((file) =>
    logCallsOf(file, lineCounter(file.path)).flatMap(({ line, event = '', message = '' }) => {
      const place = { path: file.path, line, text: `${event}: ${message}` }
      return [
        ...(EVENT.test(event)
          ? []
          : [{ ...place, says: 'the first argument of a log call is its code: lease_renewal_failed' }]),
        ...(/^[A-Z][a-z]|\.$/.test(message)
          ? [{ ...place, says: 'a log message starts in lower case and has no full stop' }]
          : []),
      ]
    }),
  )
}

function comments(): Text[] {
  return [
    ...filesOf(COMMENTED).flatMap((path) =>
      linesOf(path).flatMap(({ line, text: row }) => {
        const text = /^\s*# (.*)/.exec(row)?.[1]
        return text === undefined ? [] : [{ path, line, text }]
      }),
    ),
    ...filesOf(TEMPLATES).flatMap((path) => {
      const lineAt = lineCounter(path)
      return [...read(path).matchAll(/\{\{-? \/\*(.*?)\*\/ ?-?\}\}/gs)].map(({ 1: text = '', index }) => ({
        path,
        line: lineAt(index),
        text: text.trim(),
      }))
    }),
  ]
}

function linesOf(path: string): { line: number; text: string }[] {
  return read(path)
    .split('\n')
    .map((text, index) => ({ line: index + 1, text }))
}

/** What the chart prints, and the texts of alerts and dashboards. */
function configuration(): Text[] {
  const notes = linesOf(NOTES)
    .filter(({ text }) => !/^\s*(\{\{|kubectl|helm)/.test(text))
    .map((row) => ({ ...row, path: NOTES }))
  const others = filesOf(YAML_TEXTS).flatMap((path) =>
    textsIn(parse(read(path).replaceAll(/\{\{.*?\}\}/gs, 'value'))).map((text) => ({ path, line: 1, text })),
  )
  return [...notes, ...others]
}

function textsIn(value: unknown, name = ''): string[] {
  if (typeof value === 'string') return TEXT_FIELDS.has(name) ? [value] : []
  if (Array.isArray(value)) return value.flatMap((one) => textsIn(one, name))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => textsIn(one, key))
}

/** @throws Error for a pattern that matches nothing: its texts would not be checked any more */
function filesOf(patterns: readonly string[]): string[] {
  const found = patterns.flatMap((pattern) => {
    const paths = globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules/**'] })
    if (paths.length === 0) throw new Error(`no file matches ${pattern}`)
    return paths
  })
  return [...new Set(found)].sort()
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function lineCounter(path: string): (offset: number) => number {
  const text = read(path)
  return (offset) => text.slice(0, offset).split('\n').length
}
