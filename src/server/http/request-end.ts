import type { Request, Response } from 'express'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import { contextOf, type RequestContext, type RequestContextOptions } from './context.ts'
import type { RequestMetrics } from './facade.ts'

export type RequestEndOptions = {
  clock: Pick<Clock, 'monotonic'>
  log: Logger
  metrics?: RequestMetrics
}

/** What nginx, too, writes of a client that has gone before it was answered. */
const CLIENT_GONE = 499

/**
 * How the end of a request is told. Changes go to the log, by whom, when they are done; events are too many for that
 * and are in the delivery log anyway.
 */
export function requestEnd(
  { clock, log, metrics }: RequestEndOptions,
  { method }: Request,
  response: Response,
): Pick<RequestContextOptions, 'onAnswered' | 'onOver'> {
  const seconds = ({ startedAt }: RequestContext) => (clock.monotonic() - startedAt) / 1000
  return {
    onAnswered: () => {
      const exchange = contextOf(response)
      metrics?.answered(exchange.route, statusOf(response), seconds(exchange))
    },
    onOver: () => {
      const exchange = contextOf(response)
      const { route, requestId, organization, client } = exchange
      if (!isChange(method, route) || organization === undefined) return
      const { name: caller, keyId } = client?.caller ?? {}
      const fields = { requestId, route, organization, caller, keyId, status: statusOf(response) }
      log.info('a change was asked for', { ...fields, ms: Math.round(seconds(exchange) * 1000) })
    },
  }
}

function isChange(method: string, route: string): boolean {
  return method !== 'GET' && method !== 'HEAD' && route !== 'none' && route !== 'publishEvent'
}

function statusOf(response: Response): number {
  return response.writableFinished ? response.statusCode : CLIENT_GONE
}
