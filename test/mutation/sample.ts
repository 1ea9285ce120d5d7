/**
 * A plugin of Stryker that tries a sample of the changes and leaves out the rest, and the rule by which it is drawn: a change
 * has a number that follows from the seed and the change itself, and those with the lowest numbers are drawn. The same seed
 * draws the same changes of the same code, and a change of one file leaves the draw of the others nearly as it was.
 */
import { createHash } from 'node:crypto'
import { relative } from 'node:path'

/** Where a change is and what it is. */
export type Change = {
  fileName: string
  mutatorName: string
  replacement?: string | undefined
  location: { start: { line: number; column?: number } }
}

/** `cut`: the highest number that is drawn. */
type Draw = { seed: string; cut: number }

/** `SIZE:SEED`, for the process of the plugin. */
export const SAMPLE_SETTING = 'MUTATION_SAMPLE'

/** At least 0, less than 1. */
export function numberOf(
  { fileName, mutatorName, replacement = '', location }: Change,
  seed: string,
): number {
  const { line, column } = location.start
  const key = [seed, fileName, line, column, mutatorName, replacement].join('\n')
  return createHash('sha256').update(key).digest().readUInt32BE() / 2 ** 32
}

/** The number of the last of `size` changes with the lowest numbers. */
export function cutOf(changes: readonly Change[], size: number, seed: string): number {
  const numbers = changes.map((change) => numberOf(change, seed)).sort((one, other) => one - other)
  return numbers[Math.min(size, numbers.length) - 1] ?? 0
}

type Mutant = Change & { id: string }

class SampleChecker {
  #draw: Draw = { seed: '', cut: 0 }

  async init(): Promise<void> {}

  /** Stryker passes all changes that a test runs at once, before it checks the first. */
  async group(mutants: Mutant[]): Promise<string[][]> {
    const [size = '', seed = ''] = (process.env[SAMPLE_SETTING] ?? '').split(':')
    this.#draw = { seed, cut: cutOf(mutants.map(fromRoot), Number(size), seed) }
    return [mutants.map(({ id }) => id)]
  }

  async check(mutants: Mutant[]): Promise<Record<string, { status: string; reason?: string }>> {
    const { seed, cut } = this.#draw
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        numberOf(fromRoot(mutant), seed) <= cut
          ? { status: 'passed' }
          : { status: 'compileError', reason: 'not drawn' },
      ]),
    )
  }
}

function fromRoot(mutant: Mutant): Mutant {
  return { ...mutant, fileName: relative(process.cwd(), mutant.fileName) }
}

const create = () => new SampleChecker()
create.inject = [] as const

export const strykerPlugins = [{ kind: 'Checker', name: 'sample', factory: create }]
