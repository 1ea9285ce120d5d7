import { z } from 'zod'
import { Problem } from './http/problems.ts'
import { MANAGE_WEBHOOKS, type Route, route } from './http/route.ts'
import type { EventStreams } from './stream/event-streams.ts'
import { parseStreamPosition, STREAM_POSITION, type StreamPosition } from './stream/position.ts'

/** The route of the event stream. stream/ has what it sends. */

const DESCRIPTION = `Sends the organization's new events and changes to its deliveries as server-sent events, for as long as the connection lasts:

- \`event\`: an event was accepted. The data is a \`ListedEvent\` as of that moment.
- \`delivery\`: a delivery has changed. The data is a \`DeliveryWithAttempts\` with the current state. \`attempts\` contains at least the attempts since the previous message about this delivery.
- \`heartbeat\`: the connection is alive. It is sent first and then every 15 seconds.

Each message has an \`id\`. To resume after an interruption, connect to any replica and send the last \`id\` as \`Last-Event-ID\`. You then receive every message that you missed, although another replica may repeat a state of a delivery that you already know. Without \`Last-Event-ID\`, the stream starts with the next change. A \`delivery\` may arrive before its \`event\`.

Davit keeps the newest messages, up to 32 MiB for all organizations. A client that was disconnected for too long, or reads too slowly, gets 410 when it connects again. It must then connect without \`Last-Event-ID\`, and list events and deliveries.`

const EXAMPLE = `retry: 1500
id: 48214-48216-48200
event: heartbeat
data: {}

id: 48301.1-48216-48200
event: event
data: {"eventId":"msg_3ywq8x2k1m5n7p9r0s4t6v8w2z","type":"environment.started","deliveries":1,"statuses":{"pending":1,"retrying":0,"succeeded":0,"exhausted":0,"canceled":0},"createdAt":"2026-01-31T12:00:00.000Z"}

`

export function streamRoutes(streams: Pick<EventStreams, 'open'>): Route[] {
  return [
    route({
      id: 'streamEvents',
      method: 'get',
      path: '/stream',
      tag: 'Events',
      summary: 'Stream events and deliveries',
      description: DESCRIPTION,
      permission: MANAGE_WEBHOOKS,
      query: z.strictObject({
        lastEventId: z
          .string()
          .regex(STREAM_POSITION, 'must be the id of a message in this stream')
          .optional()
          .meta({
            description:
              'lastEventId is for clients that cannot send the header Last-Event-ID, which takes precedence.',
          }),
      }),
      success: {
        status: 200,
        description: 'A stream of messages, which ends when either side closes it.',
        body: z.string().meta({ description: 'The messages, as server-sent events.', example: EXAMPLE }),
        isStream: true,
      },
      problems: ['cursor_expired'],
      resumable: true,
      async handle({ organization, query, lastEventId = query.lastEventId }) {
        return { stream: await streams.open(organization, positionOf(lastEventId)) }
      },
    }),
  ]
}

/** @throws Problem invalid */
function positionOf(lastEventId: string | undefined): StreamPosition | undefined {
  if (lastEventId === undefined) return undefined
  const position = parseStreamPosition(lastEventId)
  if (position) return position
  throw new Problem('invalid', {
    errors: [{ pointer: 'Last-Event-ID', message: 'must be the id of a message in this stream' }],
  })
}
