/**
 * fast-check with arrays and texts up to their `maxLength`. By default it stops at about ten, whatever the limit, so that
 * histories of a hundred steps were never tried. `PROPERTIES=quick` keeps them short and reports the first counterexample without
 * shrinking, for thousands of runs that only need to know whether there is one. `PROPERTIES_SEED=N` repeats a run.
 */
import fc from 'fast-check'

const { PROPERTIES, PROPERTIES_SEED } = process.env
const isQuick = PROPERTIES === 'quick'

fc.configureGlobal({
  ...fc.readConfigureGlobal(),
  defaultSizeToMaxWhenMaxSpecified: !isQuick,
  endOnFailure: isQuick,
  // In the message, where a summary shows it.
  includeErrorInReport: true,
  ...(PROPERTIES_SEED === undefined ? {} : { seed: Number(PROPERTIES_SEED) }),
})

export { default as fc } from 'fast-check'
