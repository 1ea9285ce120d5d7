/**
 * fast-check whose arrays and texts grow as long as their `maxLength` says. By itself it ends them at about ten, whatever the limit:
 * histories of a hundred steps were never tried. `PROPERTIES_SHRINK=off`: the first counterexample is told as it was found.
 */
import fc from 'fast-check'

fc.configureGlobal({
  ...fc.readConfigureGlobal(),
  defaultSizeToMaxWhenMaxSpecified: true,
  endOnFailure: process.env.PROPERTIES_SHRINK === 'off',
})

export { default as fc } from 'fast-check'
