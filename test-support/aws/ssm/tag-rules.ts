import { z } from 'zod'
import { AwsError } from '../aws-error.ts'

const TEXT = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u
const MAX_TAGS = 50

/** Source: SSM API Reference, data type Tag. */
export const tagInput = z.strictObject({
  Key: z.string().min(1).max(128).regex(TEXT),
  Value: z.string().max(256).regex(TEXT),
})

export type TagInput = z.output<typeof tagInput>

/** @returns the merged tags @throws AwsError for too many, reserved or repeated ones */
export function withTags(tags: ReadonlyMap<string, string>, added: readonly TagInput[]): Map<string, string> {
  if (new Set(added.map(({ Key }) => Key)).size < added.length)
    throw AwsError.of('validation', 'Duplicate tag keys found.')
  if (added.some(({ Key }) => /^aws:/i.test(Key)))
    throw AwsError.of('validation', 'Tag keys that start with "aws:" are reserved.')
  const all = new Map(tags)
  for (const { Key, Value } of added) all.set(Key, Value)
  if (all.size > MAX_TAGS)
    throw AwsError.coded(
      'TooManyTagsError',
      `The number of tags for each resource can not exceed ${MAX_TAGS}`,
    )
  return all
}
