import { stripVTControlCharacters } from 'node:util'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { ORGANIZATION } from '../organization.ts'
import { WORKS, WRONG_PASSWORD } from './box.ts'

const PLAIN = /^[\w@%+=:,./-]+$/

/** A text as one word of a shell: folders may have spaces in their names. */
export function shellWord(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** What the terminal shows of bakes that have ended: first as kubectl does, then what is behind it. At most 100 columns. */

const COLUMNS = 100
const INDENT = '    '
const LABEL = 12

/** A line for each, in the columns of `kubectl get boxtemplates`. */
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

/** What a bake came to, and why. */
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
          ...labelled('the tool', failure.message),
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

/** With what is behind it in lines that fit. */
function labelled(label: string, text: string): string[] {
  const start = INDENT.length + 2 + LABEL
  const clean = stripVTControlCharacters(text).replaceAll(/\s+/g, ' ').trim()
  return wrapped(clean, COLUMNS - start).map((line, index) =>
    `${INDENT}  ${(index === 0 ? label : '').padEnd(LABEL)}${line}`.trimEnd(),
  )
}

/** Words that are longer than a line are cut. */
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
  /** File with the right password. */
  passwordFile: string
  /** Id of the credential with the wrong one. */
  credential: string
  /** What the pods write. */
  log: string
}

/** Lines to paste, which stand alone but for those that the playground prints at its start. */
export function tries({ baseUrl, keyFile, passwordFile, credential, log }: TryOptions): string[] {
  const k = `kubectl -n ${ORGANIZATION}`
  const place = `${baseUrl}/organizations/${ORGANIZATION}/registry-credentials/${credential}`
  const right = `"{\\"secret\\":\\"$(cat ${shellWord(passwordFile)})\\"}"`
  return [
    `The pods of bakes run as processes here, since there is no node; they write to ${log}`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(keyFile)})"`,
    '',
    '  # the boxes of the organization, with the words of the tool',
    `  ${k} get boxtemplates -o wide`,
    '  # all that is known of the one that failed, and its Events',
    `  ${k} describe bt ${WRONG_PASSWORD}`,
    '  # bake once more, although nothing has changed; what it comes to is shown here',
    `  ${k} annotate bt ${WORKS} --overwrite davit.dev/rebake-requested-at="$(date -u +%FT%TZ)"`,
    '  # the right password: the box is then baked again by itself',
    `  curl -sS -H "$KEY" -X PATCH ${place} --json ${right}`,
    '',
  ]
}
