/** What servers say when they refuse. Source: OCI distribution specification, "Error Codes". */

export type RefusalWords = { codes: readonly string[]; words: string }

const MOST_ERRORS = 10
const LONGEST_CODE = 64
const LONGEST_WORDS = 500

/** @param text the body, which may be JSON as specified, JSON of another kind, or any text */
export function readErrorBody(text: string): RefusalWords {
  const body = parsed(text)
  const errors = listOf(fieldOf(body, 'errors'))
  const codes = errors.flatMap((error) => {
    const code = fieldOf(error, 'code')
    return typeof code === 'string' && code.length <= LONGEST_CODE ? [code.toUpperCase()] : []
  })
  const said = errors.map((error) => {
    const parts = [fieldOf(error, 'code'), fieldOf(error, 'message')]
    return parts.filter((part) => typeof part === 'string' && part !== '').join(': ')
  })
  const words = said.filter((line) => line !== '').join('; ') || plainWords(body) || text
  return { codes, words: words.replace(/\s+/g, ' ').trim().slice(0, LONGEST_WORDS).toWellFormed() }
}

/** What services for tokens say, each in its own way. */
function plainWords(body: unknown): string | undefined {
  for (const name of ['details', 'message', 'error_description', 'error']) {
    const text = fieldOf(body, name)
    if (typeof text === 'string' && text !== '') return text
  }
  return undefined
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value.slice(0, MOST_ERRORS) : []
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
