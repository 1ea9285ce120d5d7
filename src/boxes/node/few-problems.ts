/** Of a thousand maps a thousand may be wrong, and each is read in one line of a log. */
const MOST = 5

/** What is wrong with maps, as a part of a sentence. */
export function summarizeProblems(problems: readonly string[]): string {
  const more = problems.length - MOST
  return [...problems.slice(0, MOST), ...(more > 0 ? [`and so it is with ${more} more`] : [])].join('; ')
}
