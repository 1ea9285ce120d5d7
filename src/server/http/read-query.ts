import { Problem } from './problems.ts'

/** Parameters of a query, each once. @param search without the question mark @throws Problem bad_request */
export function readQuery(search: string): Record<string, string> {
  const found = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(search)) {
    if (found.has(name))
      throw new Problem('bad_request', { detail: `The parameter ${quoted(name)} is there twice.` })
    found.set(name, value)
  }
  return Object.fromEntries(found)
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
