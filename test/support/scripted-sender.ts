import type { Clock } from '../../src/lib/time.ts'
import type { SendOutcome, SendRequest, WebhookSender } from '../../src/webhooks/sender/send-failures.ts'

const nothing = () => undefined

/** An attempt in progress; `end` gives its outcome. */
export type Attempt = { id: string; path: string; end(outcome?: number | SendOutcome): void; ended: boolean }

/** Attempts in the order in which they began. Those to a path with an answer end immediately. */
export class ScriptedSender implements WebhookSender {
  readonly attempts: Attempt[] = []
  readonly answers = new Map<string, number | ((id: string) => number)>()
  /** The process has ended and sends nothing more. */
  dead = false
  /** The delay of an answer. */
  latencyMs = 0
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  send(request: SendRequest, signal?: AbortSignal): Promise<SendOutcome> {
    if (this.dead) return new Promise(nothing)
    const path = new URL(request.url).pathname
    return new Promise((resolve) => {
      const attempt: Attempt = {
        id: request.headers['webhook-id'] ?? '',
        path,
        ended: false,
        end: (outcome = 200) => {
          attempt.ended = true
          resolve(typeof outcome === 'number' ? response(outcome) : outcome)
        },
      }
      this.attempts.push(attempt)
      signal?.addEventListener('abort', () =>
        attempt.end({ kind: 'failure', class: 'canceled', error: 'given up', latencyMs: 1 }),
      )
      const answer = this.answers.get(path)
      if (answer === undefined) return
      const code = typeof answer === 'number' ? answer : answer(attempt.id)
      if (this.latencyMs === 0) attempt.end(code)
      else this.#clock.after(this.latencyMs, () => attempt.end(code))
    })
  }
}

function response(code: number): SendOutcome {
  return { kind: 'response', code, latencyMs: 1, response: '' }
}
