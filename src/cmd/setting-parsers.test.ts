import { expect, test } from 'vitest'
import { hostNames, replicaNameFromHost } from './setting-parsers.ts'

test.each([
  ['davit-controller-7c9f-x2', 'davit-controller-7c9f-x2'],
  ['Build_Host.example.COM', 'build-host-example-com'],
  ['--', 'davit'],
  [`${'a'.repeat(62)}.b`, 'a'.repeat(62)],
])('a replica of the host %s is %s', (host, name) => {
  expect(replicaNameFromHost(host)).toBe(name)
})

test.each([
  ['receiver.acme.svc.cluster.local', ['receiver.acme.svc.cluster.local']],
  ['receiver.acme.svc.cluster.local.', ['receiver.acme.svc.cluster.local']],
  ['Hooks.Corp.Example., b.example', ['hooks.corp.example', 'b.example']],
  ['hooks.corp.example..', undefined],
  ['.', undefined],
  ['10.0.0.1.', undefined],
])('the hosts %s are %j', (text, want) => {
  expect(hostNames.safeParse(text).data).toEqual(want)
})
