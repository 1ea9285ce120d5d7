/**
 * Figures of the hostile tests: printed by the test that measures them, and kept for test/reports/guarantees.md if a run asks for
 * it.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export type Figures = Record<string, number | string>

/** @param name of the file for them: letters and dashes */
export function tellFigures(name: string, figures: Figures): void {
  const words = Object.entries(figures).map(([what, value]) => `${what} ${value}`)
  process.stdout.write(`${name}: ${words.join(', ')}\n`)
  const { FIGURES_FOLDER: folder } = process.env
  if (!folder) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(figures, undefined, 2)}\n`)
}

/** Rounded to two decimal places. */
export function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
