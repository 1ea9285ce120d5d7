/**
 * Giving an entry of the log its WebhookDelivery: after the first outcome, or after two seconds without one.
 * The entry is closed by a `moved` record; until that is durable everything here may be repeated.
 */
import type { CancelReason, DeliveryState } from '../../api/webhook-delivery.ts'
import { isFinal } from '../../domain/delivery.ts'
import { messageId } from '../../domain/message-id.ts'
import { ApiError } from '../../ports/kubernetes.ts'
import { aboutEndpoint } from '../endpoint/about-endpoint.ts'
import { type Delivery, type LogHome, OBJECT_HOME } from './delivery.ts'
import type { StoreResult } from './delivery-objects.ts'
import { persist } from './persist.ts'
import type { PlaneContext } from './plane-context.ts'

/** A delivery whose object nobody may make is driven from the log for so long, then canceled. */
const REFUSED_FOR_MS = 10 * 60_000
/** The API server gives a request up after a minute, answered or not. */
const MAY_COME_MS = 65_000

/**
 * Makes the object and closes the entry. At most one at a time for an entry: a second call waits for the first.
 * @param made told when the object is there, and its entry is still open
 * @throws Error only when the process ends before that
 */
export async function moveToObject(
  ctx: PlaneContext,
  delivery: Delivery,
  home: LogHome,
  made: () => void = () => undefined,
): Promise<void> {
  while (home.moving) await home.moving
  if (delivery.home !== home) return
  const moving = move(ctx, delivery, home, made)
  home.moving = moving.catch(() => undefined)
  try {
    await moving
  } finally {
    home.moving = undefined
  }
}

/** Another replica may have brought the entry to its end meanwhile: nothing would show the end of an object that is made then. */
async function store(ctx: PlaneContext, delivery: Delivery, home: LogHome): Promise<StoreResult | undefined> {
  if (!home.segment.open.has(delivery.index)) return undefined
  const result = await ctx.objects.store(delivery, home, home.status)
  // The entry stays open meanwhile: nothing would show the end of an object that comes after it was closed.
  if (result.kind === 'refused' && isFinal(home.status?.state) && mayCome(ctx, home))
    throw new ApiError('Unavailable', 'a call that was not answered may still make the object')
  return result
}

/** Whether an object may still be made by an earlier call, which was not answered. */
function mayCome({ clock }: PlaneContext, { mayBeShown, unansweredAt = 0 }: LogHome): boolean {
  return mayBeShown === true && clock.monotonic() - unansweredAt < MAY_COME_MS
}

async function move(ctx: PlaneContext, delivery: Delivery, home: LogHome, made: () => void): Promise<void> {
  const result = await persist(ctx, 'a delivery', () => store(ctx, delivery, home))
  made()
  const { state } = home.status ?? {}
  if (!result) {
    if (state && isFinal(state)) endEntry(ctx, delivery, home, state)
    return
  }
  if (result.kind === 'stored') {
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    return close(ctx, delivery, home)
  }
  if (state && isFinal(state)) {
    // What it came to is durable; that nothing will show it changes nothing about it.
    if (result.kind === 'refused') complain(ctx, delivery, result.message)
    await ctx.outcomes.record({ kind: 'moved', position: delivery })
    return endEntry(ctx, delivery, home, state)
  }
  if (result.kind === 'namespaceGone') return await cancelEntry(ctx, delivery, home, 'NamespaceGone')
  await refused(ctx, delivery, home, result.message)
}

/** The object shows it from here on. */
function close(ctx: PlaneContext, delivery: Delivery, home: LogHome): void {
  if (delivery.home !== home) return
  const state = home.status?.state
  delivery.home = OBJECT_HOME
  if (state && isFinal(state)) ctx.ended(delivery, state, true)
  else ctx.shown(delivery)
}

/** Quota or policy: it goes on from the log for a while. */
async function refused(ctx: PlaneContext, delivery: Delivery, home: LogHome, message: string): Promise<void> {
  const now = ctx.clock.now()
  home.refusedSince ??= now
  complain(ctx, delivery, message)
  if (now - home.refusedSince > REFUSED_FOR_MS && !mayCome(ctx, home))
    await cancelEntry(ctx, delivery, home, 'CannotStore')
}

function complain(ctx: PlaneContext, delivery: Delivery, message: string): void {
  const view = ctx.directory.find(delivery.lane.endpoint)
  if (view) {
    ctx.events.record(aboutEndpoint(view.endpoint.metadata), {
      type: 'Warning',
      reason: 'CannotStoreDelivery',
      message: `No WebhookDelivery can be made: ${message}`,
    })
  }
  ctx.log.warn('A delivery object was refused', { delivery: messageId(delivery.name), message })
}

/** Ends an entry of the log without an object. */
export async function cancelEntry(
  ctx: PlaneContext,
  delivery: Delivery,
  home: LogHome,
  reason: CancelReason,
): Promise<void> {
  await ctx.outcomes.record({ kind: 'canceled', position: delivery, reason })
  endEntry(ctx, delivery, home, 'canceled')
}

/** The entry's end is durable, and no object shows it. */
export function endEntry(ctx: PlaneContext, delivery: Delivery, home: LogHome, state: DeliveryState): void {
  if (delivery.home !== home) return
  delivery.home = OBJECT_HOME
  ctx.ended(delivery, state, false)
}
