/** How values of the dashboard's units read. */
import type { Unit } from '../../../tools/docgen/dashboard/panel.ts'

const LOCALE = 'en'
const DIGITS = { maximumSignificantDigits: 2, notation: 'compact' } as const
const PLAIN = new Intl.NumberFormat(LOCALE, DIGITS)
const PERCENT = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 3, style: 'percent' })
const BYTES = new Intl.NumberFormat(LOCALE, { ...DIGITS, style: 'unit', unit: 'byte', unitDisplay: 'narrow' })
const TIME = { maximumSignificantDigits: 3, style: 'unit', unitDisplay: 'narrow' } as const
const SECONDS = new Intl.NumberFormat(LOCALE, { ...TIME, unit: 'second' })
const MILLISECONDS = new Intl.NumberFormat(LOCALE, { ...TIME, unit: 'millisecond' })

export function shownValue(value: number, unit: Unit): string {
  if (unit === 'percentunit') return PERCENT.format(value)
  if (unit === 'bytes') return BYTES.format(value)
  if (unit === 'ops') return `${PLAIN.format(value)}/s`
  if (unit === 'short') return PLAIN.format(value)
  return value > 0 && value < 1 ? MILLISECONDS.format(value * 1000) : SECONDS.format(value)
}
