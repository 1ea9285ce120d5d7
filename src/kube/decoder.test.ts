import { expect, test } from 'vitest'
import { NewerFormatError } from '../apis/log-format.ts'
import type { RawObject } from './client.ts'
import { Decoder } from './informer.ts'

function world() {
  const said: unknown[] = []
  const ended: string[] = []
  const log = {
    info: () => undefined,
    warn: () => undefined,
    error: (_event: string, _message: string, fields?: object) => void said.push(fields),
  }
  const decode = ({ metadata }: RawObject) => {
    if (metadata.name === 'thrown') throw new Error('not an object')
    if (metadata.name === 'newer') throw new NewerFormatError('newer', 2)
    return metadata.name === 'good' ? 'decoded' : undefined
  }
  const decoder = new Decoder(decode, 'things', { log, onNewerFormat: ({ message }) => ended.push(message) })
  const take = (name: string, uid = 'u') => {
    const metadata = { name, namespace: 'acme', uid, resourceVersion: '1' }
    return decoder.decode({ metadata } as unknown as RawObject, { key: `acme/${name}`, uid, version: 1 })
  }
  return { decoder, take, said, ended }
}

test('what cannot be decoded is counted each time, and told once for each object', () => {
  const { decoder, take, said } = world()
  expect(['good', 'thrown', 'bad', 'thrown', 'bad'].map((name) => take(name))).toEqual([
    'decoded',
    undefined,
    undefined,
    undefined,
    undefined,
  ])
  expect(decoder.poisoned).toBe(4)
  expect(said).toEqual([
    { resource: 'things', object: 'acme/thrown', uid: 'u', error: new Error('not an object') },
    { resource: 'things', object: 'acme/bad', uid: 'u', error: undefined },
  ])
})

test('what has been told is forgotten once a thousand others were', () => {
  const { take, said } = world()
  for (let n = 0; n < 1000; n += 1) take('bad', `u${n}`)
  take('bad', 'u0')
  expect(said).toHaveLength(1000)
  take('bad', 'u1000')
  take('bad', 'u999')
  expect(said).toHaveLength(1001)
  take('bad', 'u0')
  expect(said).toHaveLength(1002)
})

test('what only a newer version understands ends the process, and nothing else does', () => {
  const { take, ended } = world()
  take('thrown')
  expect(ended).toEqual([])
  take('newer')
  expect(ended).toEqual([expect.stringContaining('has format 2')])
})
