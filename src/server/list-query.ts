import { z } from 'zod'

const MOST = 200
const USUAL = 50

/** Entries of a page. */
export const limit = z
  .string()
  .refine(
    (value) => /^[1-9][0-9]{0,2}$/.test(value) && Number(value) <= MOST,
    `must be a whole number from 1 to ${MOST}`,
  )
  .transform(Number)
  .default(USUAL)
  .meta({
    description: 'How many at most.',
    override: { type: 'integer', minimum: 1, maximum: MOST, default: USUAL },
  })

/** Where the page before ended. */
export const cursor = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/, 'is no cursor')
  .max(512)
  .optional()
  .meta({
    description: '`cursor` of the page before, for the same list with the same filters.',
  })

export const nextCursor = z
  .string()
  .nullable()
  .meta({ description: 'For the next page; null when this is the last.' })
