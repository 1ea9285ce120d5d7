import { expect, test } from 'vitest'
import { PING, PUBLISH } from '../../src/server/http/route.ts'
import { rolesThatMay } from './roles-that-may.ts'

function role(name: string, resources: string[], more: object = {}) {
  return { name, rules: [{ apiGroups: ['davit.dev'], resources, verbs: ['create'], ...more }] }
}

test('a role may what one of its rules names: group, resource with its subresource, and verb', () => {
  const roles = [
    role('all of it', ['webhookevents', 'webhookendpoints/ping']),
    role('without the subresource', ['webhookendpoints']),
    role('another group', ['webhookevents'], { apiGroups: ['other.dev'] }),
    role('another verb', ['webhookevents'], { verbs: ['get'] }),
    role('one object alone', ['webhookevents'], { resourceNames: ['one'] }),
    {
      name: 'in another rule',
      rules: [...role('', ['secrets']).rules, ...role('', ['webhookevents']).rules],
    },
  ]
  expect(rolesThatMay(PUBLISH, roles)).toEqual(['all of it', 'in another rule'])
  expect(rolesThatMay(PING, roles)).toEqual(['all of it'])
})
