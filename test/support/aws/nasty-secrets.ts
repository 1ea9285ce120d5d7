import { fc } from '../fast-check.ts'

/** Secrets in shapes that escape simple searches; long enough to not occur by chance. */
export const nastySecret: fc.Arbitrary<string> = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 8, maxLength: 60 }),
    fc.string({
      unit: fc.constantFrom('"', "'", '\\', '%', '{', '}', '<', '&', '$', '`', 'ü', '字', '🔑'),
      minLength: 8,
      maxLength: 40,
    }),
    fc.base64String({ minLength: 16, maxLength: 120 }),
    fc.json({ maxDepth: 2 }),
    fc
      .string({ minLength: 3, maxLength: 30 })
      .map((text) => `%${encodeURIComponent(text.toWellFormed())}%00x`),
    fc.stringMatching(/^gh[ps]_[A-Za-z0-9]{36}$/),
  )
  .filter((text) => text.length >= 8 && new Set(text).size > 4 && text.trim() === text && text.isWellFormed())

/** The form of `secret` that one of the texts contains. */
export function traceOf(secret: string, texts: readonly string[]): string | undefined {
  const forms = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  ]
  return forms.find((form) => form.length > 4 && texts.some((text) => text.includes(form)))
}
