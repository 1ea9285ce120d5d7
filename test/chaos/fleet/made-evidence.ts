/** A short notation of evidence for tests of the verdict on a fleet. */
import { violations } from '../../support/verdict.ts'
import type { SeenReception } from '../receivers.ts'
import type { FleetEndpoint } from './endpoints.ts'
import type { FaultRecord } from './fault-work.ts'
import { type FleetEvidence, judgeFleet } from './fleet-verdict.ts'
import { fleetViolations } from './fleet-violations.ts'

const O: FleetEndpoint = {
  name: 'o',
  organization: 'acme',
  types: ['t'],
  ordered: true,
  steady: true,
}
const P: FleetEndpoint = {
  name: 'p',
  organization: 'acme',
  types: ['u'],
  toggled: true,
}

/** `a+1@100-130`: delivery a, received successfully (`-`: failed) from life 1, from 100 to 130 ms. */
export function received(endpoint: string, text: string): SeenReception[] {
  return text
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => {
      const [, id = '', answer, run, at, endedAt] = /^(\w)([+-])(\d+)@(\d+)-(\d+)$/.exec(word) ?? []
      const ok = answer === '+'
      const times = { at: Number(at), endedAt: Number(endedAt), answeredAt: ok ? Number(endedAt) : 0 }
      return { endpoint, id, run: Number(run), answer: ok ? 'ok' : 'failed', body: bodyOf(id), ...times }
    })
}

export function bodyOf(id: string): string {
  return `{"data":{"n":${id.charCodeAt(0)}}}`
}

/** Events a, b, ... to the ordered endpoint, answered at 0. Thirty seconds are thirty milliseconds. */
export function evidence(
  accepted: string,
  receptions: string,
  more: Partial<FleetEvidence> = {},
): FleetEvidence {
  const ids = [...accepted]
  return {
    log: {
      deliveries: ids.map((id) => ({ endpoint: 'o', id })),
      events: ids.map((id) => ({ id, organization: 'acme', type: 't', body: bodyOf(id), segment: 's' })),
    },
    receptions: received('o', receptions),
    endpoints: [O, P],
    faults: [],
    silences: [],
    exhausted: new Set(),
    published: ids.map((id) => ({
      n: id.charCodeAt(0),
      organization: 'acme',
      type: 't',
      id,
      deliveries: 1,
      begunAt: 0,
      answeredAt: 0,
    })),
    pauses: new Map(),
    deleted: new Set(),
    unsure: new Set(),
    stalls: [],
    loads: [],
    waitScale: 0.001,
    leaseMs: 9000,
    startedAt: new Map(),
    renewals: new Map(),
    looks: Array.from({ length: 200 }, (_, n) => n * 500),
    ...more,
  }
}

export function fault(
  kind: FaultRecord['kind'],
  from: number,
  to: number,
  lives: FaultRecord['lives'],
): FaultRecord {
  return { kind, from, to, readyAt: to, lives, blows: [] }
}

export const PROMISED = { latestMs: 2000, unseenMs: 25_000, serversAgree: true, leaseMs: 9000 }

/** Describes the violations. */
export function wrong(given: FleetEvidence): string[] {
  const verdict = judgeFleet(given)
  return [...violations(verdict), ...fleetViolations(verdict, PROMISED)]
}
