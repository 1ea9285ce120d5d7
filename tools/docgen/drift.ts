/** Compares the generated files with the existing ones. */
import type { GeneratedFile, Output } from './generated-file.ts'

export type Files = {
  read(path: string): string | undefined
  /** Files directly in a folder; empty if it does not exist. */
  list(folder: string): string[]
}

/** `wanted` is absent for a file that should not exist. */
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
      problem: there === undefined ? 'is missing' : 'is out of date',
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
    .map((path) => ({ path, problem: 'is no longer generated' }))
}
