import type { Profiler } from 'node:inspector'

/**
 * URLs of the files of which a function ran. Code at the top of a module does not count: it runs when the module is
 * loaded, whoever uses it.
 */
export function executedFiles(coverage: readonly Profiler.ScriptCoverage[]): string[] {
  return coverage
    .filter(({ url, functions }) => url.startsWith('file:') && functions.some(hasRun))
    .map(({ url }) => url)
}

/** V8 has the top of a module as a function without a name that begins where the file begins. */
function hasRun({ functionName, ranges: [whole] }: Profiler.FunctionCoverage): boolean {
  return whole !== undefined && whole.count > 0 && (functionName !== '' || whole.startOffset > 0)
}
