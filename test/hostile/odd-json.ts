/** Valid JSON with some invalid parts. */
import type { SeededRandom } from '../chaos/seeded-random.ts'

type Parent = { holder: Record<string, unknown> | unknown[]; key: string | number }

/** Values of unexpected types. */
const ODD: readonly (() => unknown)[] = [
  () => null,
  () => '',
  () => -1,
  () => 2 ** 53,
  () => 1e300,
  () => 0.5,
  () => true,
  () => [],
  () => ({}),
  () => [[[]]],
  () => 'x'.repeat(20_000),
  () => '\u0000\u001b[31m\u202e😀',
  () => 'not-a-time',
  () => '0000-00-00T00:00:00Z',
  () => '999999-12-31T23:59:59Z',
  () => nested(200),
  () => JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as unknown,
  () => Array.from({ length: 2000 }, (_, i) => i),
]

/** @returns a copy with this many changes */
export function oddly(json: unknown, random: SeededRandom, changes: number): unknown {
  const root = { json: structuredClone(json) }
  for (let i = 0; i < changes; i += 1) changeOne(root, random)
  return root.json
}

function changeOne(root: { json: unknown }, random: SeededRandom): void {
  const { holder, key } = random.pick(placesIn(root))
  const own = holder as Record<string | number, unknown>
  const how = random.fraction()
  if (how < 0.15 && key !== 'json') delete own[key]
  else if (how < 0.25) own[key] = [own[key]]
  else if (how < 0.35) own[key] = { value: own[key] }
  else if (how < 0.4) own[`${String(key)}OfTomorrow`] = own[key]
  else own[key] = random.pick(ODD)()
}

function placesIn(holder: Parent['holder']): Parent[] {
  const keys = Array.isArray(holder) ? [...holder.keys()].slice(0, 20) : Object.keys(holder)
  return keys.flatMap((key) => {
    const value = (holder as Record<string | number, unknown>)[key]
    const inside = typeof value === 'object' && value !== null ? placesIn(value as Parent['holder']) : []
    return [{ holder, key }, ...inside]
  })
}

function nested(depth: number): unknown {
  let value: unknown = 'deep'
  for (let i = 0; i < depth; i += 1) value = { value }
  return value
}
