import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { ApiError } from './client.ts'
import { collectionPath, objectPath } from './resources.ts'

const endpoints = { group: 'davit.dev', version: 'v1alpha1', plural: 'webhookendpoints', namespaced: true }
const secrets = { group: '', version: 'v1', plural: 'secrets', namespaced: true }
const types = { group: 'davit.dev', version: 'v1alpha1', plural: 'eventtypes', namespaced: false }

function kindOf(build: () => string): string {
  try {
    return build()
  } catch (error) {
    return error instanceof ApiError ? error.kind : String(error)
  }
}

describe('a path of the Kubernetes API', () => {
  const table = [
    {
      given: 'all of a kind',
      path: () => collectionPath(endpoints),
      want: '/apis/davit.dev/v1alpha1/webhookendpoints',
    },
    {
      given: 'a namespace of a kind',
      path: () => collectionPath(endpoints, 'acme'),
      want: '/apis/davit.dev/v1alpha1/namespaces/acme/webhookendpoints',
    },
    {
      given: 'one object of the core group',
      path: () => objectPath(secrets, { namespace: 'acme', name: 'keys.billing' }),
      want: '/api/v1/namespaces/acme/secrets/keys.billing',
    },
    {
      given: 'one cluster-scoped object',
      path: () => objectPath(types, { name: 'environment.started' }),
      want: '/apis/davit.dev/v1alpha1/eventtypes/environment.started',
    },
  ]
  it.each(table)('is right for $given', ({ path, want }) => {
    expect(path()).toBe(want)
  })

  const names = [
    '.',
    '..',
    '',
    '...',
    'a..b',
    'a/b',
    '../secrets',
    '%2e%2e',
    'a%2fb',
    'A',
    'a b',
    '-a',
    'a-',
    'a?x=1',
    'a#b',
    'ä',
    `${'a'.repeat(254)}`,
    'a\n',
    'a.',
  ]
  it.each(names)('is never made with the name %j: no such object can be', (name) => {
    expect(kindOf(() => objectPath(endpoints, { namespace: 'acme', name }))).toBe('NotFound')
    expect(kindOf(() => objectPath(types, { name }))).toBe('NotFound')
    expect(kindOf(() => objectPath(endpoints, { namespace: name, name: 'a' }))).toBe('NotFound')
    expect(kindOf(() => collectionPath(endpoints, name))).toBe('BadRequest')
  })

  it('is never made without a namespace where objects have one, or with one where they do not', () => {
    expect(kindOf(() => objectPath(endpoints, { name: 'a' }))).toBe('BadRequest')
    expect(kindOf(() => objectPath(types, { namespace: 'acme', name: 'a' }))).toBe('BadRequest')
  })

  it('is never made of a type that is none', () => {
    for (const wrong of [{ group: '..' }, { version: 'v1/x' }, { plural: '.' }, { plural: '' }]) {
      expect(kindOf(() => collectionPath({ ...endpoints, ...wrong }))).toBe('BadRequest')
    }
  })

  it('has always the same number of segments, and parses to itself, whatever the name', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('.', '/', '%', 'a', '2', 'e', '-', '\\', '?', '#', ';', '\0') }),
    )
    fc.assert(
      fc.property(text, text, (namespace, name) => {
        const path = kindOf(() => objectPath(endpoints, { namespace, name }))
        if (path === 'NotFound') return
        expect(path.split('/')).toHaveLength(8)
        expect(new URL(path, 'https://server').pathname).toBe(path)
        expect(path).toBe(`/apis/davit.dev/v1alpha1/namespaces/${namespace}/webhookendpoints/${name}`)
      }),
      { numRuns: 2_000 },
    )
  })
})
