import { type JsonFault, MAX_JSON_DEPTH, readStrictJson, type StrictJson } from '../../lib/strict-json.ts'
import { Problem } from './problems.ts'

/** @param maxDepth levels that the body may have @throws Problem bad_json */
export function readJson(text: string, maxDepth = MAX_JSON_DEPTH): StrictJson {
  const { json, fault } = readStrictJson(text, { maxDepth, forbidden: '__proto__' })
  if (fault) throw new Problem('bad_json', { detail: detailOf(fault) })
  return json
}

function detailOf({ kind, what, place }: JsonFault): string {
  if (kind === 'depth') return `The body is ${what} (${place}).`
  const sentence = what.charAt(0).toUpperCase() + what.slice(1)
  return place === '' ? `${sentence}.` : `${sentence} at ${place}.`
}
