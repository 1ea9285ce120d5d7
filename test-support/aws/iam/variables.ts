import { NotInTheDouble } from '../aws-error.ts'
import { type Context, checkKey } from './context.ts'
import { literally } from './glob.ts'

const VARIABLE = /\$\{([^}]*)\}/g
const ESCAPES = new Set(['*', '?', '$'])

/** @throws NotInTheDouble for variables that the emulator lacks, including those with a default */
export function checkVariables(text: string): void {
  for (const [, name = ''] of text.matchAll(VARIABLE)) {
    if (ESCAPES.has(name)) continue
    if (name.includes(',')) throw new NotInTheDouble(`a default of the policy variable \${${name}}`)
    checkKey(name)
  }
}

/**
 * Replaces policy variables by their values, in which wildcards are plain characters.
 * @returns undefined if a variable has no single value: such a text matches nothing
 */
export function expand(text: string, context: Context): string | undefined {
  let whole = true
  const expanded = text.replace(VARIABLE, (_, name: string) => {
    if (ESCAPES.has(name)) return literally(name)
    const values = context.get(name)
    if (values?.length !== 1) whole = false
    return literally(values?.[0] ?? '')
  })
  return whole ? expanded : undefined
}
