/**
 * fast-check whose arrays and texts grow as long as their `maxLength` says. By itself it ends them at about ten, whatever the limit:
 * histories of a hundred steps were never tried. `PROPERTIES=quick`: they stay that short, and the first counterexample is told as it
 * was found, for runs that ask only whether there is one, thousands of times. `PROPERTIES_SEED=N` repeats a run.
 */
import fc from 'fast-check'

const { PROPERTIES, PROPERTIES_SEED } = process.env
const isQuick = PROPERTIES === 'quick'

fc.configureGlobal({
  ...fc.readConfigureGlobal(),
  defaultSizeToMaxWhenMaxSpecified: !isQuick,
  endOnFailure: isQuick,
  ...(PROPERTIES_SEED === undefined ? {} : { seed: Number(PROPERTIES_SEED) }),
})

export { default as fc } from 'fast-check'
