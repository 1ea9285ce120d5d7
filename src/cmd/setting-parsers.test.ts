import { expect, test } from 'vitest'
import { replicaNameFromHost } from './setting-parsers.ts'

test.each([
  ['davit-controller-7c9f-x2', 'davit-controller-7c9f-x2'],
  ['Build_Host.example.COM', 'build-host-example-com'],
  ['--', 'davit'],
  [`${'a'.repeat(62)}.b`, 'a'.repeat(62)],
])('a replica of the host %s is %s', (host, name) => {
  expect(replicaNameFromHost(host)).toBe(name)
})
