import { describe, expect, it } from 'vitest'
import { parseE2eOptions } from './e2e-options.ts'

const CLUSTER = {
  KUBECONFIG: '/k',
  E2E_IMAGE: 'registry.example.com:5000/a/davit:0.1.0',
  E2E_ADDRESS: '10.0.0.1',
}
const FOUND = { hasKind: false, version: '0.1.0' }

describe('what is said of the cluster', () => {
  it('may come from the environment', () => {
    expect(parseE2eOptions([], CLUSTER, FOUND)).toMatchObject({
      kubeconfig: '/k',
      image: { repository: 'registry.example.com:5000/a/davit', tag: '0.1.0' },
      parts: ['release', 'page'],
    })
  })

  it('is what an argument says rather than the environment', () => {
    const { image } = parseE2eOptions(['page', '--image=other.example/davit:0.1.0'], CLUSTER, FOUND)
    expect(image.repository).toBe('other.example/davit')
  })

  it('may be nothing where kind and docker are', () => {
    const { kubeconfig, image } = parseE2eOptions([], {}, { ...FOUND, hasKind: true })
    expect({ kubeconfig, image }).toEqual({
      kubeconfig: undefined,
      image: { repository: 'registry.example.com/davit', tag: '0.1.0' },
    })
  })

  it.each([
    [[], {}, 'KUBECONFIG is missing'],
    [[], { ...CLUSTER, E2E_IMAGE: '' }, '--image is missing'],
    [['--image=davit'], CLUSTER, 'needs a registry and a tag'],
    [['--image=r.example/davit:next'], CLUSTER, 'needs the tag 0.1.0'],
    [[], { ...CLUSTER, E2E_ADDRESS: '' }, '--address is missing'],
    [['chart'], CLUSTER, 'there is no part chart'],
    [['--rate=0'], CLUSTER, '--rate is a whole number'],
    [['--steady=0'], CLUSTER, '--steady is a whole number'],
    [['--events=1e9'], CLUSTER, '--events is a whole number'],
    [['--node=one'], CLUSTER, 'node'],
  ])('is not enough: %j with %j', (args, environment, words) => {
    expect(() => parseE2eOptions(args, environment, FOUND)).toThrow(words)
  })
})
