/** One line of a watch. What nobody asks for in it is not read: each replica reads every line of the log. */
import { GROUP } from '../apis/meta.ts'
import { apiErrorFromEvent } from './api-status.ts'
import { ApiError, type RawObject, type WatchEvent } from './client.ts'
import type { ParseJson } from './json-of.ts'

/** @returns an error where the line is one, or is none of a watch. Overwrites what it does not read in `line`. */
export function parseLine(line: Buffer, parse: ParseJson): WatchEvent | ApiError {
  let event: RawEvent
  try {
    event = parseDeletion(line, parse) ?? parseWhole(line, parse)
  } catch (error) {
    return garbage(line, error)
  }
  const { type, object } = event ?? {}
  if (type === 'ERROR') return apiErrorFromEvent(object)
  if (typeof object?.metadata !== 'object' || object.metadata === null) return garbage(line)
  if (type === 'ADDED' || type === 'MODIFIED') return { type, object, bytes: line.length }
  if (type === 'DELETED') return { type, object }
  if (type !== 'BOOKMARK') return garbage(line)
  return { type, resourceVersion: object.metadata.resourceVersion ?? '' }
}

type RawEvent = { type?: unknown; object?: RawObject }

const DELETED = Buffer.from('{"type":"DELETED",')
/** With its quotes it is not inside a string. */
const SPEC = Buffer.from(',"spec":')

/**
 * A deletion carries the whole object, which was read when it came: of one that is sent as `..., "metadata": ..., "spec": ...`
 * only what stands before its spec is read. Each replica hears of every segment of the log that is deleted.
 */
function parseDeletion(line: Buffer, parse: ParseJson): RawEvent | undefined {
  if (!line.subarray(0, DELETED.length).equals(DELETED)) return undefined
  const end = line.indexOf(SPEC)
  if (end === -1) return undefined
  try {
    const event = parse(`${line.toString('utf8', 0, end)}}}`) as RawEvent
    return event.object?.metadata === undefined ? undefined : event
  } catch {
    // A field of that name stands further inside.
    return undefined
  }
}

function parseWhole(line: Buffer, parse: ParseJson): RawEvent {
  blankManagedFields(line)
  return parse(line.toString('utf8')) as RawEvent
}

const OURS = ['ADDED', 'MODIFIED'].map((type) =>
  Buffer.from(`{"type":"${type}","object":{"apiVersion":"${GROUP}/`),
)
/** Quotes inside strings are escaped, so neither stands in one, but for the end of a name. */
const FIELDS = Buffer.from('"managedFields":[')
const AFTER_FIELDS = Buffer.from('}],"name":"')
const SPACE = 0x20

/**
 * Who owns which fields is asked of objects that are read by their names, never of a watch, and has half the keys of a
 * segment of the log. The API server sends fields of custom resources in the order of their names, so that the name of the object
 * is next; what is owned has no lists in it.
 */
function blankManagedFields(line: Buffer): void {
  if (!beginsWithOneOf(line, OURS)) return
  const start = line.indexOf(FIELDS)
  if (start === -1) return
  const end = line.indexOf(AFTER_FIELDS, start)
  // In the spec, or up to something in it, is what somebody else has written.
  if (end === -1 || end > line.indexOf(SPEC)) return
  line.fill(SPACE, start, end + '}],'.length)
}

function beginsWithOneOf(line: Buffer, starts: readonly Buffer[]): boolean {
  return starts.some((start) => line.subarray(0, start.length).equals(start))
}

/** `status` 200: the connection was fine, so the same may come again from the same version. */
function garbage(line: Buffer, cause?: unknown): ApiError {
  return new ApiError('Unavailable', `not a watch event, in a line of ${line.length} bytes`, {
    status: 200,
    cause,
  })
}
