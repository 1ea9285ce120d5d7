/** Text that came from outside, made fit for a status, a record of the log and a terminal. */

const CONTROL = /\p{Cc}/gu
const HALF_CHARACTER_AT_END = /[\ud800-\udbff]$/

/**
 * At most `max` UTF-16 units of `text`, without half characters and control characters. The API server replaces
 * half characters, so that a status which holds one would never read back as it was written; a control character
 * is six bytes in JSON, which records of the log have no room for.
 */
export function sanitizeText(text: string, max: number): string {
  const cut = text.length > max ? text.slice(0, max).replace(HALF_CHARACTER_AT_END, '') : text
  return cut.toWellFormed().replace(CONTROL, ' ')
}
