/** The committed contract: text files, one per part. */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Contract } from './compare.ts'
import { ROOT } from './root.ts'

const FOLDER = join(ROOT, 'contract')

/** Empty if nothing is committed. */
export function readBaseline(): Contract {
  const paths = globSync('**/*.txt', { cwd: FOLDER })
  return new Map(paths.map((path) => [path, linesOf(readFileSync(join(FOLDER, path), 'utf8'))]))
}

/** Removes parts that no longer exist. */
export function writeBaseline(contract: Contract): void {
  for (const path of readBaseline().keys()) if (!contract.has(path)) rmSync(join(FOLDER, path))
  for (const [path, lines] of contract) {
    mkdirSync(dirname(join(FOLDER, path)), { recursive: true })
    writeFileSync(join(FOLDER, path), lines.map((line) => `${line}\n`).join(''))
  }
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}
