import { describe, expect, it } from 'vitest'
import { parseNodeOptions } from './node-options.ts'

const PULLS = [
  'pulls',
  '--kubeconfig=/k',
  '--address=10.0.0.1',
  '--registry-hosts=/certs.d',
  '--kubelet-pid-file=/pid',
]

describe('what is said of the node', () => {
  it('is enough for pulls', () => {
    expect(parseNodeOptions(PULLS)).toMatchObject({ parts: ['pulls'], kubeletPidFile: '/pid' })
  })

  it.each([
    [[], 'name at least one part'],
    [['sleeps'], 'there is no part sleeps'],
    [
      ['pulls', '--kubeconfig=/k', '--address=10.0.0.1', '--registry-hosts=/c'],
      '--kubelet-pid-file is missing',
    ],
    [['bakes', '--kubeconfig=/k', '--address=10.0.0.1'], '--image is missing'],
    [[...PULLS, '--node=one'], 'node'],
  ])('is not enough: %j', (args, words) => {
    expect(() => parseNodeOptions(args)).toThrow(words)
  })
})
