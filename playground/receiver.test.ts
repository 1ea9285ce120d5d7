import { afterEach, expect, it } from 'vitest'
import { type PlaygroundReceiver, type Received, startPlaygroundReceiver } from './receiver.ts'

const received: Received[] = []
const unknown: string[] = []
let receiver: PlaygroundReceiver

afterEach(async () => {
  received.length = 0
  unknown.length = 0
  await receiver.close()
})

/** @returns the status code for an unsigned request */
async function codeFor(path: string, secrets: readonly string[] | undefined): Promise<number> {
  receiver = await startPlaygroundReceiver({
    secretsOf: async () => secrets,
    onReceived: (one) => received.push(one),
    onUnknownPath: (path) => unknown.push(path),
    isOrdered: () => false,
    mayFail: () => false,
  })
  return (await fetch(`${receiver.url}/${path}`, { method: 'POST', body: '{}' })).status
}

it('counts an unsigned request to an endpoint as not verified', async () => {
  expect(await codeFor('billing', [`whsec_${'A'.repeat(32)}`])).toBe(401)
  expect(received).toMatchObject([{ endpoint: 'billing', verified: false, code: 401 }])
  expect(unknown).toEqual([])
})

it('counts a request to an endpoint without a secret as not verified', async () => {
  expect(await codeFor('billing', [])).toBe(401)
  expect(received).toMatchObject([{ endpoint: 'billing', verified: false }])
})

it('does not count a request to a path that no endpoint has, and reports it apart', async () => {
  expect(await codeFor('favicon.ico?x=1', undefined)).toBe(404)
  expect(received).toEqual([])
  expect(unknown).toEqual(['favicon.ico'])
})
