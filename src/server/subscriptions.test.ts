import { expect, test } from 'vitest'
import { webhookEndpoint } from '../apis/webhook-endpoint.ts'
import { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import { Subscriptions } from './publishing.ts'

function endpoint(name: string, spec: Record<string, unknown>, version = 1) {
  return webhookEndpoint.parse({
    metadata: {
      name,
      namespace: 'acme',
      uid: `uid-${name}`,
      resourceVersion: String(version),
      generation: version,
    },
    spec: { url: 'https://receiver.example/hooks', ...spec },
  })
}

function bed() {
  const directory = new EndpointDirectory()
  const subscriptions = new Subscriptions(directory)
  const names = (type: string, organization = 'acme') =>
    subscriptions.targetsOf(organization, type).map(({ name }) => name)
  return { directory, names }
}

test('an event goes to the enabled endpoints of its organization that want its type, and to those that want all', () => {
  const { directory, names } = bed()
  directory.apply(endpoint('one', { eventTypes: ['a.b'] }))
  directory.apply(endpoint('all', { eventTypes: ['*'] }))
  directory.apply(endpoint('other', { eventTypes: ['c.d'] }))
  directory.apply(endpoint('paused', { eventTypes: ['*'], state: 'disabled' }))
  expect(names('a.b')).toEqual(['all', 'one'])
  expect(names('a.b', 'globex')).toEqual([])
})

test('what is kept follows every change of an endpoint at once', () => {
  const { directory, names } = bed()
  expect(names('a.b')).toEqual([])
  directory.apply(endpoint('one', { eventTypes: ['a.b'] }))
  expect(names('a.b')).toEqual(['one'])
  directory.apply(endpoint('one', { eventTypes: ['c.d'] }, 2))
  expect(names('a.b')).toEqual([])
  expect(names('c.d')).toEqual(['one'])
  directory.apply(endpoint('one', { eventTypes: ['c.d'], state: 'disabled' }, 3))
  expect(names('c.d')).toEqual([])
  directory.apply(endpoint('one', { eventTypes: ['c.d'] }, 4))
  expect(names('c.d')).toEqual(['one'])
  directory.remove(endpoint('one', { eventTypes: ['c.d'] }, 4))
  expect(names('c.d')).toEqual([])
})
