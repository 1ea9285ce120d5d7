/** Schemas that several of the chart's values share. */
import { z } from 'zod'

/** A value with its purpose and its default. */
export function value<T extends z.ZodType>(schema: T, standard: z.input<T>, description: string) {
  return schema.optional().meta({ description, default: standard })
}

export function text(standard: string, description: string) {
  return value(z.string(), standard, description)
}

export function yesOrNo(standard: boolean, description: string) {
  return value(z.boolean(), standard, description)
}

export function integer(standard: number, [least, most]: readonly [number, number], description: string) {
  return value(z.int().min(least).max(most), standard, description)
}

/** An object that Kubernetes documents and validates. */
export function object(standard: Record<string, unknown>, description: string) {
  return value(z.record(z.string(), z.unknown()), standard, description)
}

export function strings(standard: Record<string, string>, description: string) {
  return value(z.record(z.string(), z.string()), standard, description)
}

export function objects(standard: Record<string, unknown>[], description: string) {
  return value(z.array(z.record(z.string(), z.unknown())), standard, description)
}

export function names(standard: string[], description: string) {
  return value(z.array(z.string().min(1)), standard, description)
}

export function group<T extends z.ZodRawShape>(description: string, shape: T) {
  return z.strictObject(shape).optional().meta({ description })
}
