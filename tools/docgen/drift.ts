/** What differs between the generated files and those that are there. */
import type { GeneratedFile, Output } from './generated-file.ts'

export type Files = {
  read(path: string): string | undefined
  /** Files directly in a folder, none when it is not there. */
  list(folder: string): string[]
}

/** `wanted` is absent for a file that should not be there. */
export type Drift = { path: string; problem: string; wanted?: string }

export function driftOf(outputs: readonly Output[], files: Files): Drift[] {
  return outputs.flatMap((output) => {
    const wanted = output.files(files.read)
    return [...changed(wanted, files), ...leftOver(output, wanted, files)]
  })
}

function changed(wanted: readonly GeneratedFile[], files: Files): Drift[] {
  const drift: Drift[] = []
  for (const { path, content } of wanted) {
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

function leftOver({ owns }: Output, wanted: readonly GeneratedFile[], files: Files): Drift[] {
  const paths = new Set(wanted.map(({ path }) => path))
  return owns
    .flatMap((folder) => files.list(folder))
    .filter((path) => !paths.has(path))
    .map((path) => ({ path, problem: 'is generated no more' }))
}
