import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { installLines, published } from './install-lines.ts'

const ROOT = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')

/** The lines of each file that differ between before and after. */
function changes(registry: string): Record<string, string[]> {
  const after = installLines({ registry }, '1.2.3', read)
  return Object.fromEntries(
    after.map(({ path, content }) => {
      const before = new Set(read(path).split('\n'))
      return [path, content.split('\n').filter((line) => !before.has(line))]
    }),
  )
}

describe('the lines that name the chart and the image', () => {
  test('name the registry once a version is published', () => {
    const install =
      'helm install davit oci://ghcr.io/acme/charts/davit --version 1.2.3 --namespace davit-system --create-namespace --values examples/quickstart/values.yaml --wait'
    expect(changes('ghcr.io/acme')).toEqual({
      'README.md': [install],
      'docs/get-started/quickstart.md': [install],
      'examples/quickstart/values.yaml': ['  repository: ghcr.io/acme/davit'],
      'examples/quickstart/receiver.yaml': ['          image: ghcr.io/acme/davit:1.2.3'],
    })
  })

  test('leave nothing to build then, so that the quickstart has six commands', () => {
    const [readme] = installLines({ registry: 'ghcr.io/acme' }, '1.2.3', read)
    const block = /```shell\n(kind create cluster[^`]*)```/.exec(readme?.content ?? '')?.[1] ?? ''
    expect(block.trim().split('\n')).toHaveLength(6)
  })

  test('change back and forth, and name a later version', () => {
    const files = new Map(
      installLines({ registry: 'ghcr.io/acme' }, '1.2.3', read).map((f) => [f.path, f.content]),
    )
    const later = installLines({ registry: 'ghcr.io/acme' }, '1.3.0', (path) => files.get(path))
    expect(later.every(({ content }) => content.includes('1.3.0') || content.includes('repository:'))).toBe(
      true,
    )
    const back = installLines({ registry: null }, '0.1.0', (path) => files.get(path))
    expect(back).toEqual(installLines({ registry: null }, '0.1.0', read))
  })

  test('must be there', () => {
    expect(() => installLines({ registry: null }, '1.2.3', () => 'helm upgrade')).toThrow(
      'README.md has no line like',
    )
  })
})

test.each(['GHCR.io/acme', 'https://ghcr.io', 'ghcr.io/', 'a b', ''])('%s is no registry', (registry) => {
  expect(published.safeParse({ registry }).success).toBe(false)
})
