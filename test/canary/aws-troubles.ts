/** Everything that can go wrong with AWS, at random: what it was sent comes back in its errors, in every form. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AwsEmulator } from '../../test-support/aws/aws-emulator.ts'
import type { Answer } from '../../test-support/aws/protocol.ts'
import type { FaultEffect } from '../../test-support/aws/script.ts'
import type { SignedRequest } from '../../test-support/aws/sigv4.ts'
import type { SeededRandom } from '../chaos/seeded-random.ts'
import { ENCODINGS } from './scan/forms.ts'

/** Of each operation, how many calls go wrong: most of those that send secrets. */
const OPERATIONS = [
  ['ssm:PutParameter', 0.4],
  ['sts:AssumeRole', 0.15],
  ['*', 0.05],
] as const
/** Of things that can go wrong at the same time; others after a while. */
const KINDS = 6
const EVERY_MS = 200
/** Those that are tried again, more often than those that end a try for a minute. */
const CODES: readonly { code: string; status: number }[] = [
  { code: 'InternalServerError', status: 500 },
  { code: 'ServiceUnavailableException', status: 503 },
  { code: 'TooManyUpdates', status: 400 },
  { code: 'ThrottlingException', status: 400 },
  { code: 'SomethingNew', status: 500 },
]
const FINAL_CODES: readonly { code: string; status: number }[] = [
  { code: 'ValidationException', status: 400 },
  { code: 'AccessDeniedException', status: 400 },
  { code: 'ParameterPatternMismatchException', status: 400 },
]
const FINAL_CHANCE = 0.04
const LONGEST_LATENCY_MS = 1500

/** What was sent, as different programs would repeat it. */
const ECHOES: readonly ((request: SignedRequest) => string)[] = [
  ...Object.values(ENCODINGS).map(
    (encode) => (request: SignedRequest) => `Value '${encode(valueIn(request))}' is not valid`,
  ),
  (request) => `1 validation error detected: ${request.body}`,
  (request) => `The request was ${request.body.toString('base64')}`,
  (request) => `${JSON.stringify(request.headers)} ${request.body}`,
]

/** Something else answers: a proxy, or an unknown server. */
const GARBAGE: readonly ((request: SignedRequest) => Answer)[] = [
  ({ body }) => ({ status: 502, headers: { 'content-type': 'text/html' }, body: `<html>${body}</html>` }),
  ({ body }) => ({ status: 200, headers: { 'content-type': 'text/html' }, body: `<pre>${body}</pre>` }),
  ({ body }) => ({ status: 200, headers: { 'content-type': JSON_TYPE }, body: `{"Version": ${body}` }),
  ({ body }) => ({ status: 400, headers: { 'content-type': JSON_TYPE }, body: body.toString() }),
  ({ body }) => ({
    status: 302,
    headers: { location: `http://127.0.0.1:9/?${encodeURIComponent(`${body}`)}` },
    body: '',
  }),
  () => ({ status: 200, headers: { 'content-type': JSON_TYPE }, body: '' }),
  () => ({ status: 204, headers: {}, body: '' }),
  // The value is the code and the type of the error.
  (request) => ({
    status: 400,
    headers: { 'content-type': JSON_TYPE },
    body: JSON.stringify({ __type: valueIn(request), message: valueIn(request) }),
  }),
]
const JSON_TYPE = 'application/x-amz-json-1.1'

const EFFECTS: readonly ((random: SeededRandom) => FaultEffect)[] = [
  () => 'throttle',
  () => 'unavailable',
  () => 'cut-before',
  () => 'cut-after',
  (random) => ({ latencyMs: random.between(0, LONGEST_LATENCY_MS) }),
  (random) => ({ garbage: pick(random, GARBAGE) }),
  (random) => ({ garbage: pick(random, GARBAGE) }),
  echo,
  echo,
  echo,
]

function echo(random: SeededRandom): FaultEffect {
  const { code, status } = pick(random, random.chance(FINAL_CHANCE) ? FINAL_CODES : CODES)
  return { code, status, message: pick(random, ECHOES) }
}

/** Until `signal` aborts; what is planned then is taken back. @returns how often something went wrong */
export async function troubleAws(
  aws: AwsEmulator,
  random: SeededRandom,
  signal: AbortSignal,
): Promise<number> {
  let happened = 0
  while (!signal.aborted) {
    const planned = OPERATIONS.flatMap(([operation, chance]) =>
      Array.from({ length: KINDS }, () =>
        aws.script.add({
          operation,
          times: Number.POSITIVE_INFINITY,
          where: () => random.chance(chance / KINDS),
          effect: pick(random, EFFECTS)(random),
        }),
      ),
    )
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined)
    happened += planned.reduce((sum, { used }) => sum + used, 0)
    for (const fault of planned) fault.remove()
  }
  return happened
}

/** The secret in a request, or all of it. */
function valueIn({ body }: SignedRequest): string {
  const text = body.toString()
  try {
    return String((JSON.parse(text) as { Value?: unknown }).Value ?? text)
  } catch {
    return text
  }
}

function pick<T>(random: SeededRandom, from: readonly T[]): T {
  const one = from[Math.floor(random.fraction() * from.length)]
  if (one === undefined) throw new RangeError('nothing to pick from')
  return one
}
