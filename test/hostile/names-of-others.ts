/** Valid objects that contain the names of another organization. */
import type { RawObject } from '../../src/kube/client.ts'
import type { SeededRandom } from '../chaos/seeded-random.ts'

const LONGEST = 400

/** Every text in the objects, and paths made of the names among them; none that contains `secret`. */
export function namesIn(objects: readonly RawObject[], secret: string): string[] {
  const names = new Set<string>()
  for (const object of objects) {
    for (const text of textsIn(object)) names.add(text)
    const { name, namespace = '' } = object.metadata
    for (const text of [
      `${namespace}/${name}`,
      `${namespace}.${name}`,
      `../${namespace}/${name}`,
      `../../${namespace}/webhookendpoints/${name}`,
      `${name}?namespace=${namespace}`,
    ])
      names.add(text)
  }
  return [...names].filter((text) => text !== '' && text.length <= LONGEST && !text.includes(secret))
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(textsIn)
}

/** @returns a copy in which each text is replaced by one of these with this probability */
export function renamed<T>(json: T, names: readonly string[], random: SeededRandom, chance: number): T {
  if (typeof json === 'string') return (random.chance(chance) ? random.pick(names) : json) as T
  if (Array.isArray(json)) return json.map((one: unknown) => renamed(one, names, random, chance)) as T
  if (typeof json !== 'object' || json === null) return json
  const members = Object.entries(json).map(([name, inside]) => [name, renamed(inside, names, random, chance)])
  return Object.fromEntries(members) as T
}
