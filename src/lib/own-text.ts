/**
 * The same text in memory of its own. What is cut out of a text keeps all of that in memory for as long as it
 * lives: an id that is remembered for hours would hold the 256 KiB that it was read from.
 */
export function copyString(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8')
}
