/** The programs of docs/guides/verify-deliveries.md, and how the page says that their libraries are installed. */
import { readFileSync } from 'node:fs'

export const VERIFY_PAGE = readFileSync(
  new URL('../../docs/guides/verify-deliveries.md', import.meta.url),
  'utf8',
)

/** The one block of the page in a language. @throws Error where there is none, or more than one */
export function snippetOf(language: string): string {
  const found = [...VERIFY_PAGE.matchAll(/```(\w+)\n(.*?)```/gs)].filter(([, name]) => name === language)
  const text = found[0]?.[2]
  if (text === undefined || found.length > 1)
    throw new Error(`docs/guides/verify-deliveries.md has ${found.length} blocks in ${language}`)
  return text
}

/** What a command of the page installs. @param command with a group */
export function installed(command: RegExp): string {
  const name = command.exec(VERIFY_PAGE)?.[1]
  if (name === undefined) throw new Error(`docs/guides/verify-deliveries.md does not say ${command}`)
  return name
}
