/**
 * Preloaded in each process of a fleet (NODE_OPTIONS=--import): adds the process to its requests, so that a request at a receiver
 * can be attributed to it.
 */
import { subscribe } from 'node:diagnostics_channel'
import { SENDER_HEADER } from './sender-header.ts'

const sender = process.env.FLEET_SENDER ?? ''

subscribe('undici:request:create', (message) => {
  const { request } = message as { request: { addHeader(name: string, value: string): void } }
  request.addHeader(SENDER_HEADER, sender)
})
