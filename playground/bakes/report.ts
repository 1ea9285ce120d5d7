import { stripVTControlCharacters } from 'node:util'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { ORGANIZATION } from '../organization.ts'
import { WORKS, WRONG_PASSWORD } from './box.ts'

const PLAIN = /^[\w@%+=:,./-]+$/

/** Quotes a text as one shell word: folder names may contain spaces. */
export function shellWord(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Formats ended bakes for the terminal: first as kubectl does, then with details. At most 100 columns wide. */

const COLUMNS = 100
const INDENT = '    '
const LABEL = 12

/** One line per template, in the columns of `kubectl get boxtemplates`. */
export function table(templates: readonly BoxTemplate[]): string[] {
  const rows = templates.map(({ metadata, status }) => {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')
    return [metadata.name, status?.bake?.state ?? '', ready?.status ?? '', ready?.reason ?? '']
  })
  const all = [['NAME', 'STATE', 'READY', 'REASON'], ...rows]
  const width = (column: number) => Math.max(...all.map((row) => row[column]?.length ?? 0))
  return all.map((row) =>
    `${INDENT}${row.map((cell, column) => cell.padEnd(width(column))).join('   ')}`.trimEnd(),
  )
}

/** The result of a bake and its reason. */
export function details({ metadata, status }: BoxTemplate): string[] {
  const bake = status?.bake
  const failure = bake?.failure
  const services = bake?.services ?? []
  return [
    `${INDENT}${metadata.name}, bake ${bake?.number ?? 0}`,
    ...services.flatMap(({ name, image, digest, credential }) => [
      ...labelled('service', `${name}: ${image}`),
      ...(digest === undefined ? [] : labelled('digest', digest)),
      ...(credential === undefined
        ? []
        : [
            ...labelled('credential', `${credential.id}${versionOf(credential)}`),
            ...labelled('why', credential.why),
          ]),
    ]),
    ...(failure === undefined
      ? []
      : [
          ...labelled('code', `${failure.code} (${failure.step}${of(failure.service)})`),
          ...labelled('output', failure.message),
          ...labelled('fix', failure.fix),
        ]),
  ]
}

function versionOf({ parameterVersion }: { parameterVersion?: number | undefined }): string {
  return parameterVersion === undefined ? '' : `, version ${parameterVersion} of its secret`
}

function of(service: string | undefined): string {
  return service === undefined ? '' : ` of ${service}`
}

/** Wraps the text after its label. */
function labelled(label: string, text: string): string[] {
  const start = INDENT.length + 2 + LABEL
  const clean = stripVTControlCharacters(text).replaceAll(/\s+/g, ' ').trim()
  return wrapped(clean, COLUMNS - start).map((line, index) =>
    `${INDENT}  ${(index === 0 ? label : '').padEnd(LABEL)}${line}`.trimEnd(),
  )
}

/** Cuts words that are longer than a line. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ').flatMap((long) => pieces(long, width))) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function pieces(word: string, width: number): string[] {
  return word.match(new RegExp(`.{1,${width}}`, 'gu')) ?? ['']
}

export type TryOptions = {
  baseUrl: string
  keyFile: string
  /** File with the correct password. */
  passwordFile: string
  /** Id of the credential with the wrong password. */
  credential: string
  /** Output of the pods. */
  log: string
}

/** Lines to paste. They do not depend on anything except the lines that the playground prints at its start. */
export function tries({ baseUrl, keyFile, passwordFile, credential, log }: TryOptions): string[] {
  const k = `kubectl -n ${ORGANIZATION}`
  const place = `${baseUrl}/organizations/${ORGANIZATION}/registry-credentials/${credential}`
  const right = `"{\\"secret\\":\\"$(cat ${shellWord(passwordFile)})\\"}"`
  return [
    `The playground has no nodes, so bake pods run as processes. They log to ${log}`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(keyFile)})"`,
    '',
    '  # list the boxes of the organization, with the tool output',
    `  ${k} get boxtemplates -o wide`,
    '  # show the failed box in full, with its Events',
    `  ${k} describe btp ${WRONG_PASSWORD}`,
    '  # bake again without a change; the result appears here',
    `  ${k} annotate btp ${WORKS} --overwrite davit.dev/rebake-requested-at="$(date -u +%FT%TZ)"`,
    '  # set the valid password; Davit then bakes the box again',
    `  curl -sS -H "$KEY" -X PATCH ${place} --json ${right}`,
    '',
  ]
}
