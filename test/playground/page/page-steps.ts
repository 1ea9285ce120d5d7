/** What a page has to be pasted, and what it says comes back. */

export type PageStep = {
  /** Of the page. */
  line: number
  command: string
  /** JSON that the last line of the output is, but for what differs from run to run. */
  answer?: unknown
}

const BLOCK = /```sh\n(?<command>.*?)```(?:\n\n```json\n(?<answer>.*?)```)?/gs

export function stepsOf(page: string): PageStep[] {
  return [...page.matchAll(BLOCK)].map(({ index, groups }) => {
    const { command = '', answer } = groups ?? {}
    const line = page.slice(0, index).split('\n').length + 1
    return { line, command, ...(answer === undefined ? {} : { answer: JSON.parse(answer) as unknown }) }
  })
}

/** It only looks: what is still on its way may be looked for again. */
export function isLook({ command }: PageStep): boolean {
  return !/export|kubectl|-X|--json/.test(command)
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const ID = /^(whe|msg|req|rc)_[0-9a-z]{20,26}$/
const FINGERPRINT = /^[0-9a-f]{16}$/
const SECRET = /^whsec_[A-Za-z0-9+/]{32}$/

/** An answer without what differs from run to run: times, ids that Davit makes, secrets and their fingerprints, ports, milliseconds. */
export function constantsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(constantsOf)
  if (typeof value === 'string') return constantText(value)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, name === 'latencyMs' ? 0 : constantsOf(member)]),
  )
}

function constantText(text: string): string {
  if (TIME.test(text)) return 'a time'
  if (SECRET.test(text)) return 'a secret'
  if (FINGERPRINT.test(text)) return 'a fingerprint'
  const [, prefix] = ID.exec(text) ?? []
  return prefix === undefined
    ? text.replace(/^http:\/\/127\.0\.0\.1:\d+\//, 'http://127.0.0.1/')
    : `${prefix}_`
}
