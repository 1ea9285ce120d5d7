const PLAIN = /^[\w@%+=:,./-]+$/

/** A text as one word of a shell: folders may have spaces in their names. */
export function shellWord(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
