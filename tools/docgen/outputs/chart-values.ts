/** Generates values.yaml, values.schema.json and docs/values.md from the chart's values. */
import { stringify } from 'yaml'
import { z } from 'zod'
import { settings, storeLimits } from '../chart/config-values.ts'
import { chartValues } from '../chart/values.ts'
import { NOTICE, NoPlaceError, type Output } from '../generated-file.ts'
import { type Cell, cell, markdownTable } from '../markdown-table.ts'
import { type SettingRow, settingRows } from '../setting-rows.ts'

const PAGE = 'docs/values.md'
const SETTINGS = 'docs/settings.md'
const NOTE = NOTICE.replace('src/apis', 'tools/docgen/chart')
const WIDTH = 110
/** How descriptions of values name pages; the descriptions are used in other places too. */
const PAGE_OF_DOCS = /\bdocs\/([a-z-]+\.md)\b/g

/** Settings of the SDK: docs/settings.md only names them, so they are described here. */
const ABOUT_AWS: Readonly<Record<string, string>> = {
  AWS_ENDPOINT_URL:
    'Where AWS is, for Davit and for bakes, if not at its public addresses: the URL of all services that have none of their own.',
  AWS_ENDPOINT_URL_ECR: 'Where ECR is, for Davit and for bakes, if not at its public address.',
  AWS_ENDPOINT_URL_SSM: 'Where SSM is, for Davit and for bakes, if not at its public address.',
  AWS_ENDPOINT_URL_STS: 'Where STS is, for Davit and for bakes, if not at its public address.',
  AWS_IGNORE_CONFIGURED_ENDPOINT_URLS:
    'Whether Davit and bakes use the public addresses of AWS, whatever endpoint URLs are set.',
  AWS_USE_DUALSTACK_ENDPOINT:
    'Whether Davit and bakes use the addresses of AWS that are reached by IPv4 and by IPv6.',
  AWS_USE_FIPS_ENDPOINT:
    'Whether Davit and bakes use the addresses of AWS with validated cryptography (FIPS).',
}

type Schema = {
  description?: string
  default?: unknown
  type?: string | string[]
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  minimum?: number
  maximum?: number
  properties?: Record<string, Schema>
}

export const chartValuesOutput: Output = {
  owns: [],
  files(read) {
    const rows = settingRows(read(SETTINGS) ?? '')
    const about = (variable: string) => plain(rowOf(rows, variable).about)
    const { $schema, ...schema } = z.toJSONSchema(chartValues(about), {
      io: 'input',
      target: 'draft-7',
    }) as Schema & {
      $schema: string
    }
    const titled = { $schema, $comment: NOTE, title: 'Values of the chart davit', ...schema }
    return [
      { path: 'charts/davit/values.schema.json', content: `${JSON.stringify(titled, null, 2)}\n` },
      { path: 'charts/davit/values.yaml', content: `# ${NOTE}\n${yamlOf(schema, rows)}` },
      { path: 'charts/davit/files/limits.yaml', content: `# ${NOTE}\n${stringify(storeLimits())}` },
      { path: PAGE, content: pageOf(schema, rows) },
    ]
  },
}

function rowOf(rows: readonly SettingRow[], variable: string): SettingRow {
  const row = rows.find(({ name }) => name === variable)
  if (row) return row
  const about = ABOUT_AWS[variable]
  if (about === undefined) throw new NoPlaceError(`${SETTINGS} does not speak of ${variable}`)
  return { name: variable, standard: 'none', allowed: 'as the AWS SDK has it', about }
}

/** The text of a page without its links. */
function plain(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('\\', '')
}

function yamlOf({ properties = {} }: Schema, rows: readonly SettingRow[]): string {
  return Object.entries(properties)
    .map(([name, schema]) => `\n${comment(schema.description, 0)}${entry(name, schema, 0, rows)}`)
    .join('')
}

function entry(name: string, schema: Schema, depth: number, rows: readonly SettingRow[]): string {
  const indent = '  '.repeat(depth)
  if (name === 'config' && depth === 0) return `config: {}\n${configLines(rows)}`
  if (!schema.properties) return `${indent}${leaf(name, schema.default, depth)}`
  const inner = Object.entries(schema.properties).map(
    ([key, value]) => `${comment(value.description, depth + 1)}${entry(key, value, depth + 1, rows)}`,
  )
  return `${indent}${name}:\n${inner.join('')}`
}

function leaf(name: string, standard: unknown, depth: number): string {
  const lines = stringify({ [name]: standard }, { lineWidth: 0, singleQuote: true })
    .trimEnd()
    .split('\n')
  return `${lines.join(`\n${'  '.repeat(depth)}`)}\n`
}

/** Every setting as a user would write it. */
function configLines(rows: readonly SettingRow[]): string {
  const lines = settings.map(({ variable, value }) => {
    const { standard } = rowOf(rows, variable)
    return standard === 'none' ? `  # ${value}:` : `  # ${value}: ${standard}`
  })
  return `${lines.join('\n')}\n`
}

function comment(description = '', depth: number): string {
  const start = `${'  '.repeat(depth)}# `
  const lines = ['']
  for (const word of description.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line !== '' && start.length + line.length + word.length > WIDTH) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.map((line) => `${start}${line}\n`).join('')
}

function pageOf({ properties = {} }: Schema, rows: readonly SettingRow[]): string {
  const { config: _, ...rest } = properties
  const values = Object.entries(rest).flatMap(([name, schema]) => valueRows(name, schema))
  const config = settings.map(({ variable, value }) => {
    const { standard, about } = rowOf(rows, variable)
    const cells = [`\`config.${value}\``, `\`${variable}\``, standard === 'none' ? '' : `\`${standard}\``]
    return [...cells, { markdown: about }]
  })
  return [
    '# Values of the chart',
    `<!-- ${NOTE} -->`,
    'What `helm install davit charts/davit --values mine.yaml` takes. A value that the chart does not know is refused, so that a typing\nerror does not leave a default in force. No value is a secret: where one is needed, a Secret is named.',
    markdownTable(['Value', 'Type', 'Default', 'What it does'], values).trimEnd(),
    '## Settings of the operator',
    'Each becomes a variable of both roles. [settings.md](settings.md) has what is allowed, and when to change them. Lists are lists here.',
    `${markdownTable(['Value', 'Variable', 'Default', 'What it does'], config)}`,
  ].join('\n\n')
}

function valueRows(name: string, schema: Schema): Cell[][] {
  if (schema.properties) {
    const inner = Object.entries(schema.properties).flatMap(([key, value]) =>
      valueRows(`${name}.${key}`, value),
    )
    return inner
  }
  const about = cell(schema.description ?? '').replaceAll(PAGE_OF_DOCS, '[$1]($1)')
  return [[`\`${name}\``, typeOf(schema), `\`${JSON.stringify(schema.default)}\``, { markdown: about }]]
}

function typeOf({ type, enum: choices, anyOf, minimum, maximum, items }: Schema): string {
  if (choices) return choices.map((choice) => `\`${choice}\``).join(', ')
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  if (type === 'integer' && minimum !== undefined) return `${minimum} to ${maximum ?? 'any'}`
  if (type === 'array') return `list of ${items?.type === 'string' ? 'strings' : `${items?.type}s`}`
  return String(type)
}
