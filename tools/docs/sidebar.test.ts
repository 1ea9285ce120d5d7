import { expect, test } from 'vitest'
import { sidebarOf } from './sidebar.ts'

const INDEX = `# Davit documentation

**Get started**

- [Quickstart](get-started/quickstart.md): with [kind](https://kind.sigs.k8s.io/index.md).
- [Install Davit](guides/install.md#before). See also [Quickstart](get-started/quickstart.md).

**Contributing**

- [Decisions](contributing/decisions/README.md), [the document](reference/openapi.json)
`

test('has a group for each heading, and each page once', () => {
  expect(sidebarOf(INDEX)).toEqual([
    {
      text: 'Get started',
      collapsed: false,
      items: [
        { text: 'Quickstart', link: '/get-started/quickstart' },
        { text: 'Install Davit', link: '/guides/install' },
      ],
    },
    {
      text: 'Contributing',
      collapsed: false,
      items: [{ text: 'Decisions', link: '/contributing/decisions/' }],
    },
  ])
})

test('folds the pages of another list under its own page', () => {
  const list = '1. [Log in `etcd`](0001-log.md)\n[Back](../style.md)'
  const [, contributing] = sidebarOf(INDEX, (path) =>
    path.endsWith('decisions/README.md') ? list : undefined,
  )
  expect(contributing?.items).toEqual([
    {
      text: 'Decisions',
      link: '/contributing/decisions/',
      collapsed: true,
      items: [{ text: 'Log in etcd', link: '/contributing/decisions/0001-log' }],
    },
  ])
})
