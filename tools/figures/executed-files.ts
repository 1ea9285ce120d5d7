import type { Profiler } from 'node:inspector'

/**
 * URLs of the files of which a function ran. Top-level code of a module does not count: it runs when the module is loaded,
 * whether or not it is used.
 */
export function executedFiles(coverage: readonly Profiler.ScriptCoverage[]): string[] {
  return coverage
    .filter(({ url, functions }) => url.startsWith('file:') && functions.some(hasRun))
    .map(({ url }) => url)
}

/** V8 reports the top level of a module as an unnamed function that starts at the start of the file. */
function hasRun({ functionName, ranges: [whole] }: Profiler.FunctionCoverage): boolean {
  return whole !== undefined && whole.count > 0 && (functionName !== '' || whole.startOffset > 0)
}
