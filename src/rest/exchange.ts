import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Response } from 'express'
import { type Answer, send } from './answer.ts'
import type { Client } from './authenticate.ts'
import { rateLimitHeaders, type Taken } from './rate-limit.ts'
import type { RawUrl } from './raw-url.ts'

/** One request and what is known of it so far. */
export type Exchange = {
  requestId: string
  /** Monotonic, in milliseconds. */
  startedAt: number
  /** The operation's id, once it is known. */
  route: string
  /** Once the client was let in. */
  organization: string | undefined
  url: RawUrl
  client: Client | undefined
  /** What is left of the limits that the request counted for. */
  limits: Record<string, { taken: Taken; perSecond: number }>
  /** What was begun for it; goes on when the client has gone. */
  work: Promise<unknown> | undefined
  /** Run when the request and its work are over, however they end. */
  releases: (() => void)[]
}

const KEY = 'exchange'

export function begin(response: Response, exchange: Exchange): void {
  response.locals[KEY] = exchange
}

export function exchangeOf(response: Response): Exchange {
  return response.locals[KEY] as Exchange
}

/** Sends the one answer of an exchange. */
export function reply(
  request: IncomingMessage,
  response: ServerResponse & Pick<Response, 'locals'>,
  answer: Answer,
): void {
  const { requestId, limits } = response.locals[KEY] as Exchange
  send(request, response, {
    ...answer,
    headers: {
      'x-request-id': requestId,
      ...(Object.keys(limits).length === 0 ? {} : rateLimitHeaders(limits)),
      ...answer.headers,
    },
  })
}
