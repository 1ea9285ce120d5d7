/** Generates values.yaml, values.schema.json, files/defaults.yaml and docs/reference/helm-values.md from the chart's values. */
import { stringify } from 'yaml'
import { z } from 'zod'
import { settings, storeLimits } from '../chart/config-values.ts'
import { orNull, type Schema, sectionsOf } from '../chart/nulls.ts'
import { chartValues } from '../chart/values.ts'
import { NOTICE, NoPlaceError, type Output } from '../generated-file.ts'
import { type Cell, cell, markdownTable } from '../markdown-table.ts'
import { type SettingRow, settingRows } from '../setting-rows.ts'

const PAGE = 'docs/reference/helm-values.md'
const SETTINGS = 'docs/reference/settings.md'
const NOTE = NOTICE.replace('src/apis', 'tools/docgen/chart')
const WIDTH = 110
/** How descriptions of values name pages; the descriptions are used in other places too. */
const PAGE_OF_DOCS = /\bdocs\/((?:[a-z-]+\/)?[a-z-]+\.md)\b/g

/** Settings of the SDK: docs/reference/settings.md only names them, so they are described here. */
const ABOUT_AWS: Readonly<Record<string, string>> = {
  AWS_ENDPOINT_URL:
    'Endpoint URL of AWS for Davit and for bakes, for all services without their own endpoint URL. If unset, the public addresses are used.',
  AWS_ENDPOINT_URL_ECR: 'Endpoint URL of ECR for Davit and for bakes. If unset, the public address is used.',
  AWS_ENDPOINT_URL_SSM: 'Endpoint URL of SSM for Davit and for bakes. If unset, the public address is used.',
  AWS_ENDPOINT_URL_STS: 'Endpoint URL of STS for Davit and for bakes. If unset, the public address is used.',
  AWS_IGNORE_CONFIGURED_ENDPOINT_URLS:
    'Whether Davit and bakes ignore all endpoint URLs and use the public addresses of AWS.',
  AWS_USE_DUALSTACK_ENDPOINT: 'Whether Davit and bakes use the dual-stack (IPv4 and IPv6) endpoints of AWS.',
  AWS_USE_FIPS_ENDPOINT:
    'Whether Davit and bakes use the FIPS endpoints of AWS, which have validated cryptography.',
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
    const titled = { $schema, $comment: NOTE, title: 'Values of the davit chart', ...orNull(schema) }
    return [
      { path: 'charts/davit/values.schema.json', content: `${JSON.stringify(titled, null, 2)}\n` },
      { path: 'charts/davit/values.yaml', content: `# ${NOTE}\n${yamlOf(schema, rows)}` },
      { path: 'charts/davit/files/limits.yaml', content: `# ${NOTE}\n${stringify(storeLimits())}` },
      {
        path: 'charts/davit/files/defaults.yaml',
        content: `# ${NOTE}\n${stringify({ sections: sectionsOf(schema) }, { lineWidth: 0 })}`,
      },
      { path: PAGE, content: pageOf(schema, rows) },
    ]
  },
}

function rowOf(rows: readonly SettingRow[], variable: string): SettingRow {
  const row = rows.find(({ name }) => name === variable)
  if (row) return row
  const about = ABOUT_AWS[variable]
  if (about === undefined) throw new NoPlaceError(`${SETTINGS} does not describe ${variable}`)
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
  if (!schema.properties) {
    // A value without a default is unset, because a default would count as set.
    return schema.default === undefined
      ? `${indent}# ${name}:\n`
      : `${indent}${leaf(name, schema.default, depth)}`
  }
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
    'Set these values with `helm upgrade --install davit charts/davit --values mine.yaml`.\nHelm rejects unknown values, so a typo cannot leave a default active.\nNo value contains a secret: values that need one name a Secret.',
    'A value or a section that is `null` has its default, and so has a section in which every line is a comment.\nOnly an object whose keys you choose, such as `controller.resources`, is empty if it is `null`; a single key that is `null` is left out.',
    markdownTable(['Value', 'Type', 'Default', 'Description'], values).trimEnd(),
    '## Settings',
    'The chart passes each setting to both roles as an environment variable.\n[Settings and metrics](settings.md) describes the allowed values, and when to change them.\nIn these values, write lists as YAML lists.',
    `${markdownTable(['Value', 'Variable', 'Default', 'Description'], config)}`,
  ].join('\n\n')
}

function valueRows(name: string, schema: Schema): Cell[][] {
  if (schema.properties) {
    const inner = Object.entries(schema.properties).flatMap(([key, value]) =>
      valueRows(`${name}.${key}`, value),
    )
    return inner
  }
  const about = cell(schema.description ?? '').replaceAll(PAGE_OF_DOCS, '[$1](../$1)')
  const standard = schema.default === undefined ? '' : `\`${JSON.stringify(schema.default)}\``
  return [[`\`${name}\``, typeOf(schema), standard, { markdown: about }]]
}

function typeOf({ type, enum: choices, anyOf, minimum, maximum, items }: Schema): string {
  if (choices) return choices.map((choice) => `\`${choice}\``).join(', ')
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  if (type === 'integer' && minimum !== undefined) return `${minimum} to ${maximum ?? 'any'}`
  if (type === 'array') return `list of ${items?.type === 'string' ? 'strings' : `${items?.type}s`}`
  return [type].flat().join(' or ')
}
