/** Lists every environment variable that a program of Davit reads. */
import { z } from 'zod'
import {
  bakeVariables,
  checkVariables,
  processVariables,
  receiverVariables,
  uninstallVariables,
} from '../../src/cmd/config.ts'
import { nodeHelperVariables } from '../../src/cmd/node-helpers.ts'
import { flatten } from './flatten.ts'
import { nameOf, nodesIn, type SourceFile } from './source-files.ts'

const PROGRAMS = {
  main: processVariables,
  bake: bakeVariables,
  box: nodeHelperVariables,
  check: checkVariables,
  receiver: receiverVariables,
  uninstall: uninstallVariables,
}
/** A value that every setting rejects. */
const NOT_A_VALUE = '\0'
const VARIABLE = /^(DAVIT|AWS)_[A-Z][A-Z0-9_]*$/

export function settingLines(sources: readonly SourceFile[]): string[] {
  const programs = Object.entries(PROGRAMS).map(([program, { shape }]) => {
    const settings = Object.entries<z.ZodType>(shape).map(([name, setting]) => [name, describe(setting)])
    return [program, Object.fromEntries(settings)]
  })
  return [
    ...flatten(Object.fromEntries(programs)),
    ...variablesIn(sources).map((name) => `in the source: ${name}`),
  ]
}

/** `form` is the schema of the chart's value, if there is one. */
function describe(setting: z.ZodType) {
  const standard = setting.safeParse(undefined)
  const refused = setting.safeParse(NOT_A_VALUE)
  const {
    $schema: _,
    default: __,
    ...form
  } = z.toJSONSchema(setting, { io: 'input', unrepresentable: 'any' })
  return {
    required: !standard.success,
    ...(standard.data === undefined ? {} : { default: standard.data }),
    ...(refused.error ? { allowed: refused.error.issues.map(({ message }) => message) } : {}),
    form,
  }
}

/** Includes variables that a program reads without a schema, or sets for another program. */
function variablesIn(sources: readonly SourceFile[]): string[] {
  const names = sources.flatMap(({ program }) => [...nodesIn(program)].map((node) => nameOf(node) ?? ''))
  return [...new Set(names)].filter((name) => VARIABLE.test(name))
}
