import { createHash } from 'node:crypto'
import { AwsError } from '../aws-error.ts'

export type PageRequest = {
  /** Maximum number of items; absent: the default of the operation. */
  size: number
  token: string | undefined
  /** What the token is bound to: the caller's path and filters. */
  scope: unknown
  /** AWS may return fewer items than it has, even none, and a token for the rest. */
  isShort: boolean
}

/**
 * One page of a sorted list. The token holds the name after which to continue, so that concurrent changes move nothing, and is
 * bound to its request.
 * @throws AwsError InvalidNextToken
 */
export function pageOf<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  { size, token, scope, isShort }: PageRequest,
): { items: Item[]; token: string | undefined } {
  const seal = createHash('sha256').update(JSON.stringify(scope)).digest('base64url').slice(0, 16)
  const last = token === undefined ? undefined : open(token, seal)
  const start = last === undefined ? 0 : items.findIndex((item) => keyOf(item) > last.key)
  const rest = start < 0 ? [] : items.slice(start)
  // Short and empty pages alternate, so that a walk comes to an end.
  const pageSize = !isShort ? size : last?.wasEmpty ? Math.ceil(size / 2) : 0
  const page = rest.slice(0, pageSize)
  const end = page.at(-1)
  const key = end === undefined ? (last?.key ?? '') : keyOf(end)
  return { items: page, token: rest.length > page.length ? close(key, page.length === 0, seal) : undefined }
}

function close(key: string, isEmpty: boolean, seal: string): string {
  return Buffer.from(JSON.stringify([seal, isEmpty, key])).toString('base64')
}

function open(token: string, seal: string): { key: string; wasEmpty: boolean } {
  try {
    const [sealed, wasEmpty, key] = JSON.parse(Buffer.from(token, 'base64').toString()) as [
      string,
      boolean,
      string,
    ]
    if (sealed === seal && typeof key === 'string') return { key, wasEmpty: wasEmpty === true }
  } catch {
    // An invalid token gets the same answer.
  }
  throw AwsError.coded('InvalidNextToken', 'The specified token is not valid.')
}
