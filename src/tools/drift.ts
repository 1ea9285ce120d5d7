/** What differs between the generated files and those that are there. */
import type { Output } from './generated-file.ts'

export type Files = {
  read(path: string): string | undefined
  /** Files directly in a folder, none when it is not there. */
  list(folder: string): string[]
}

/** `wanted` is absent for a file that should not be there. */
export type Drift = { path: string; problem: string; wanted?: string }

export function driftOf(outputs: readonly Output[], files: Files): Drift[] {
  return outputs.flatMap((output) => [...changed(output, files), ...leftOver(output, files)])
}

function changed(output: Output, files: Files): Drift[] {
  const drift: Drift[] = []
  for (const { path, content } of output.files(files.read)) {
    const there = files.read(path)
    if (there === content) continue
    drift.push({
      path,
      problem: there === undefined ? 'is missing' : 'is not what would be generated',
      wanted: content,
    })
  }
  return drift
}

function leftOver(output: Output, files: Files): Drift[] {
  const wanted = new Set(output.files(files.read).map(({ path }) => path))
  return output.owns
    .flatMap((folder) => files.list(folder))
    .filter((path) => !wanted.has(path))
    .map((path) => ({ path, problem: 'is generated no more' }))
}
