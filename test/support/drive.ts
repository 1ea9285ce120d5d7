/** Advances time, attempt by attempt, as fast as attempts and outcomes occur. */

import { parsePosition } from '../../src/apis/delivery-segment.ts'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import type { TestDavit } from './davit.ts'

/**
 * Jumps from attempt to attempt until all deliveries of an endpoint have ended.
 *
 * @param count deliveries of the endpoint, including ended ones
 * @returns them, newest first
 */
export async function driveToEnd(davit: TestDavit, endpoint: string, count = 1): Promise<WebhookDelivery[]> {
  for (;;) {
    const deliveries = await settled(davit, endpoint, count)
    if (deliveries.every(isOver)) return deliveries
    jumpToNext(davit, deliveries)
  }
}

/** Jumps until each delivery has this many attempts, or has ended. */
export async function driveToAttempt(
  davit: TestDavit,
  endpoint: string,
  attempts: number,
  count = 1,
): Promise<WebhookDelivery[]> {
  for (;;) {
    const deliveries = await settled(davit, endpoint, count)
    if (deliveries.every((delivery) => isOver(delivery) || attemptsOf(delivery) >= attempts))
      return deliveries
    jumpToNext(davit, deliveries)
  }
}

/** Moves time to the next attempt of the first of these, or by `ms` less. */
export function jumpToNext(davit: TestDavit, deliveries: readonly WebhookDelivery[], lessMs = 0): void {
  const due = deliveries.flatMap(({ status }) =>
    status?.nextAttemptAt === undefined ? [] : [Date.parse(status.nextAttemptAt)],
  )
  davit.clock.jump(Math.max(0, Math.min(...due) - lessMs - davit.clock.now()))
}

/** In the order of the delivery log; names have a resolution of seconds. */
export function inLogOrder(deliveries: readonly WebhookDelivery[]): WebhookDelivery[] {
  const positionOf = ({ spec }: WebhookDelivery) => parsePosition(spec.position) ?? { version: 0, index: 0 }
  return [...deliveries].sort((a, b) => {
    const [first, second] = [positionOf(a), positionOf(b)]
    return first.version - second.version || first.index - second.index
  })
}

/**
 * Waits until nothing is in progress: each delivery has ended, waits for its time, or waits behind the head of an ordered queue.
 */
export function settled(davit: TestDavit, endpoint: string, count: number): Promise<WebhookDelivery[]> {
  return davit.deliveriesWhen(endpoint, (deliveries) => {
    const open = deliveries.filter((delivery) => !isOver(delivery))
    const waiting = open.filter(({ status }) => Date.parse(status?.nextAttemptAt ?? '') > davit.clock.now())
    const rest = open.filter((delivery) => !waiting.includes(delivery))
    const held = waiting.length > 0 && isOrdered(davit, endpoint) && rest.every(isPending)
    return deliveries.length >= count && (rest.length === 0 || held)
  })
}

function isOrdered(davit: TestDavit, endpoint: string): boolean {
  return davit.controller.webhooks.directory.get(davit.organization, endpoint)?.endpoint.spec.ordered === true
}

function isOver({ status }: WebhookDelivery): boolean {
  return isFinal(status?.state)
}

function isPending({ status }: WebhookDelivery): boolean {
  return status?.state === undefined || status.state === 'pending'
}

function attemptsOf({ status }: WebhookDelivery): number {
  return status?.attemptCount ?? 0
}
