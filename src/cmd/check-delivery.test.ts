import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import { checkDelivery } from './check-delivery.ts'

const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
const OTHER_SECRET = `whsec_${Buffer.alloc(32, 2).toString('base64')}`

/** Stands in for the REST API: it delivers a ping to the URL of the endpoint, signed with `signingSecret`. */
let api: Server
let url: string
let signingSecret: string | undefined
let refusals: Map<string, number>
let requests: string[]

beforeEach(async () => {
  requests = []
  refusals = new Map()
  signingSecret = SECRET
  let target = ''
  api = createServer(async (request, response) => {
    const text = await textOf(request)
    const call = `${request.method} ${request.url}`
    requests.push(call)
    const refusal = refusals.get(`${request.method}`)
    if (refusal !== undefined || request.headers.authorization !== 'token')
      return void response.writeHead(refusal ?? 401).end('{"title":"Refused"}')
    if (call === 'POST /organizations/acme/webhooks') {
      target = JSON.parse(text).url
      return void response
        .writeHead(201)
        .end(JSON.stringify({ endpoint: { endpointId: 'whe_1' }, secret: SECRET }))
    }
    if (call.endsWith('/ping')) {
      response.writeHead(202).end(JSON.stringify({ webhookId: 'msg_1' }))
      if (signingSecret !== undefined) await deliver(target, signingSecret)
      return
    }
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  url = `http://127.0.0.1:${(api.address() as AddressInfo).port}`
})

afterEach(() => void api.close())

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

async function deliver(target: string, secret: string): Promise<void> {
  const body = JSON.stringify({ type: 'webhook.ping' })
  const now = new Date()
  await fetch(target, {
    method: 'POST',
    body,
    headers: {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign('msg_1', now, body),
    },
  })
}

async function check(token = 'token'): Promise<string | undefined> {
  const port = await freePort()
  const receiver = { address: { host: '127.0.0.1', port }, url: `http://127.0.0.1:${port}/` }
  return await checkDelivery({ api: url, token, organization: 'acme', limitMs: 1000, ...receiver })
}

const DELETED = 'DELETE /organizations/acme/webhooks/whe_1'

test('passes for a verified delivery, and deletes its endpoint', async () => {
  expect(await check()).toBeUndefined()
  expect(requests.at(-1)).toBe(DELETED)
})

test('fails without a delivery, and deletes its endpoint', async () => {
  signingSecret = undefined
  expect(await check()).toBe('no verified delivery within 1 s; the receiver got no request')
  expect(requests.at(-1)).toBe(DELETED)
})

test('fails if no signature of the delivery verifies, and says so', async () => {
  signingSecret = OTHER_SECRET
  expect(await check()).toMatch(
    /^no verified delivery within 1 s; the receiver reported: not verified msg_1: No matching/,
  )
})

test('fails with the response of a REST API that refuses', async () => {
  refusals.set('POST', 409)
  expect(await check()).toBe('POST webhooks returned 409: {"title":"Refused"}')
  expect(requests).toHaveLength(1)
})

test('fails with the reason if the REST API cannot be reached', async () => {
  api.close()
  expect(await check()).toMatch(/ECONNREFUSED/)
})

test('fails with the reason if its port is taken', async () => {
  const { port } = api.address() as AddressInfo
  const receiver = { address: { host: '127.0.0.1', port }, url: `http://127.0.0.1:${port}/` }
  const given = { api: url, token: 'token', organization: 'acme', limitMs: 1000 }
  expect(await checkDelivery({ ...given, ...receiver })).toMatch(/EADDRINUSE/)
  expect(requests).toEqual([])
})

test('passes although its endpoint cannot be deleted', async () => {
  refusals.set('DELETE', 503)
  expect(await check()).toBeUndefined()
})
