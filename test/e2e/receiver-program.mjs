// Receives webhooks in a pod and counts them: what came, in which order, how often, and whether it was signed.
//   POST /secrets {path, secret}   whom it verifies from now on
//   GET /seen?path=/a              what came there
//   POST anything else             a webhook

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const MAX_SEEN = 200_000
const MAX_BODY_BYTES = 2 ** 20
const seen = new Map()

const placeOf = (path) => {
  const place = seen.get(path) ?? { secret: '', first: [], times: new Map(), requests: 0, unsigned: 0 }
  seen.set(path, place)
  return place
}

createServer(async (request, response) => {
  const chunks = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) return response.writeHead(413).end()
    chunks.push(chunk)
  }
  const body = Buffer.concat(chunks).toString()
  const url = new URL(request.url, 'http://receiver')
  if (url.pathname === '/seen') {
    const { first, requests, unsigned } = placeOf(url.searchParams.get('path'))
    return response.end(JSON.stringify({ first, requests, unsigned }))
  }
  if (url.pathname === '/secrets') {
    const { path, secret } = JSON.parse(body)
    placeOf(path).secret = secret
    return response.end()
  }
  receive(placeOf(url.pathname), request.headers, body)
  return response.end()
}).listen(8080)

function receive(place, headers, body) {
  const { environmentId } = JSON.parse(body).data ?? {}
  place.requests += 1
  if (!isSigned(place.secret, headers, body)) place.unsigned += 1
  if (typeof environmentId !== 'string') return
  if (!place.times.has(environmentId) && place.first.length < MAX_SEEN) place.first.push(environmentId)
  place.times.set(environmentId, (place.times.get(environmentId) ?? 0) + 1)
}

// Standard Webhooks 1.0: HMAC-SHA256 of id, timestamp and body.
function isSigned(secret, headers, body) {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const own = Buffer.from(createHmac('sha256', key).update(signed).digest('base64'))
  return String(headers['webhook-signature'])
    .split(' ')
    .map((part) => Buffer.from(part.slice(part.indexOf(',') + 1)))
    .some((given) => given.length === own.length && timingSafeEqual(given, own))
}
