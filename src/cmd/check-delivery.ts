/** The last step of `davit check`: a delivery that goes the whole way, to a receiver in this process. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { type Receiver, startReceiver } from '../receiver/receiver.ts'

export type DeliveryCheck = {
  /** The REST API, without a path. */
  api: string
  /** An API token that may manage and ping the endpoints of the organization. */
  token: string
  organization: string
  /** Where the receiver listens, and the URL at which the controller reaches it. */
  address: { host: string; port: number }
  url: string
  /** How long to wait for the delivery. */
  limitMs: number
}

const REQUEST_MS = 15_000
const MAX_RESPONSE_CHARACTERS = 200

const created = z.object({ endpoint: z.object({ endpointId: z.string() }), secret: z.string() })
const pinged = z.object({ webhookId: z.string() })

/** Creates an endpoint, pings it, verifies the delivery, and deletes the endpoint. @returns what failed; undefined if nothing did */
export async function checkDelivery(check: DeliveryCheck): Promise<string | undefined> {
  const lines: string[] = []
  let secrets: string[] = []
  const print = (line: string) => void lines.push(line)
  let receiver: Receiver | undefined
  let id: string | undefined
  try {
    receiver = await startReceiver({ ...check.address, secrets: async () => secrets, print })
    const { endpoint, secret } = created.parse(
      await call(check, 'POST', '', { url: check.url, eventTypes: ['*'] }),
    )
    id = endpoint.endpointId
    secrets = [secret]
    const { webhookId } = pinged.parse(await call(check, 'POST', `/${id}/ping`))
    return await received(`verified webhook.ping ${webhookId} `, lines, check.limitMs)
  } catch (error) {
    return reasonOf(error)
  } finally {
    if (id !== undefined) await call(check, 'DELETE', `/${id}`).catch(() => undefined)
    await receiver?.close()
  }
}

async function received(
  start: string,
  lines: readonly string[],
  limitMs: number,
): Promise<string | undefined> {
  const deadline = performance.now() + limitMs
  while (!lines.some((line) => line.startsWith(start))) {
    if (performance.now() > deadline) {
      const last = lines.at(-1)
      return `no verified delivery within ${limitMs / 1000} s${last === undefined ? '; the receiver got no request' : `; the receiver reported: ${last}`}`
    }
    await sleep(100)
  }
  return undefined
}

/** @throws Error with what the REST API answered instead of a success */
async function call(
  { api, token, organization }: DeliveryCheck,
  method: string,
  path: string,
  body?: object,
) {
  const response = await fetch(`${api}/organizations/${encodeURIComponent(organization)}/webhooks${path}`, {
    method,
    headers: {
      authorization: token,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    redirect: 'error',
    signal: AbortSignal.timeout(REQUEST_MS),
  })
  const text = await response.text()
  if (!response.ok)
    throw new Error(
      `${method} webhooks${path} returned ${response.status}: ${text.slice(0, MAX_RESPONSE_CHARACTERS)}`,
    )
  return text === '' ? undefined : JSON.parse(text)
}

/** `fetch` hides the reason in the cause. */
export function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return `unexpected response: ${z.prettifyError(error)}`
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
