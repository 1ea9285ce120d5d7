/**
 * Every call that saving a secret makes, to the API server and to the cloud, fails once, or is the last one of its process.
 * Afterwards there is all or nothing, or what the controller puts right: a parameter with our tags and without a credential, which its
 * sweep removes, and a version of our own that is not pinned yet, which it adopts unless its user name is not written. A repeat under the same Idempotency-Key then
 * comes to the same end as if nothing had happened.
 */

import { describe, expect, test } from 'vitest'
import { ACME, CredentialsBed, ecr, token } from '../../test/support/credentials-bed.ts'
import type { HeldParameter } from '../../test/support/fake-parameters.ts'
import { STEP_FAULTS, type StepFault, Steps } from '../../test/support/steps.ts'
import { hasPendingFields } from '../credentials/spec.ts'
import { SecretText } from '../lib/redact.ts'
import type { CredentialChange, CredentialDraft } from './credential-resource.ts'

const KEY = { idempotencyKey: 'order-1' }
const SECRET = 's3cr3t-of-the-bot'
const NEXT = 'the next one'

type Outcome = 'answered' | 'refused' | 'died'

async function outcomeOf(bed: CredentialsBed, answer: Promise<unknown>, steps: Steps): Promise<Outcome> {
  try {
    return (await bed.answer(answer, steps)) === 'died' ? 'died' : 'answered'
  } catch {
    return 'refused'
  }
}

/** How many calls it takes when nothing happens. */
async function callsOf(run: (steps: Steps) => Promise<unknown>): Promise<number> {
  const steps = new Steps()
  await run(steps)
  return steps.calls.length
}

function cases(calls: number): { at: number; fault: StepFault }[] {
  return Array.from({ length: calls }, (_, index) => index + 1).flatMap((at) =>
    STEP_FAULTS.map((fault) => ({ at, fault })),
  )
}

async function connected(): Promise<CredentialsBed> {
  const bed = new CredentialsBed()
  await bed.connect()
  return bed
}

describe.each([
  { what: 'a token', draft: token() },
  { what: 'ecr', draft: ecr() },
])('making $what', async ({ draft }: { draft: CredentialDraft }) => {
  const plain = await callsOf(async (steps) => {
    const bed = await connected()
    await bed.answer(bed.server(steps).create(ACME, draft, {}))
  })
  const keyed = await callsOf(async (steps) => {
    const bed = await connected()
    await bed.answer(bed.server(steps).create(ACME, draft, KEY))
  })
  const parameters = draft.type === 'token' ? 1 : 0

  test('makes calls that may fail', () => {
    expect([plain, keyed].map((calls) => calls > parameters * 3)).toEqual([true, true])
  })

  test.each(cases(plain))(
    'call $at $fault: all or nothing, or what the sweep finds',
    async ({ at, fault }) => {
      const bed = await connected()
      const steps = new Steps()
      steps.failAt(at, fault)
      const outcome = await outcomeOf(bed, bed.server(steps).create(ACME, draft, {}), steps)
      const made = bed.credentials()
      expect(bed.cloud.held.every((held) => bed.isOurs(held))).toBe(true)
      if (outcome === 'answered') expect([made.length, bed.cloud.held.length]).toEqual([1, parameters])
      // Nothing is there without its secret.
      if (made.length > 0)
        expect(bed.cloud.held.map(({ versions }) => versions).slice(0, parameters)).toEqual(
          parameters === 1 ? [[SECRET]] : [],
        )
      // Who lives cleans up.
      if (outcome === 'refused')
        expect([made.length, bed.cloud.held.length]).toBeOneOf([
          [0, 0],
          [1, parameters],
        ])
    },
  )

  test.each(cases(keyed))(
    'call $at $fault: the repeat at another replica makes it, once',
    async ({ at, fault }) => {
      const bed = await connected()
      const steps = new Steps()
      steps.failAt(at, fault)
      await outcomeOf(bed, bed.server(steps).create(ACME, draft, KEY), steps)
      const { credential } = await bed.answer(bed.server().create(ACME, draft, KEY))
      const made = bed.credentials()
      expect(made.map(({ metadata }) => `rc_${metadata.name}`)).toEqual([credential.id])
      expect(bed.cloud.held.map(({ name, versions }) => [name, versions])).toEqual(
        parameters === 1 ? [[`/davit/acme/${credential.id}`, [SECRET]]] : [],
      )
      // Where the first has come to its end but for the status, it is the controller that records it.
      if (made[0]?.status?.parameter) expect(made[0].status.parameter.version).toBe(1)
    },
  )
})

describe.each([
  { what: 'a secret', change: { secret: new SecretText(NEXT) }, prepare: async () => undefined },
  {
    what: 'a secret and its user name',
    change: { secret: new SecretText(NEXT), username: 'next' },
    prepare: async () => undefined,
  },
  {
    what: 'a secret whose parameter is gone',
    change: { secret: new SecretText(NEXT) },
    prepare: async (bed: CredentialsBed) => void bed.cloud.held.splice(0),
  },
  {
    what: 'a secret and its user name where the parameter is gone',
    change: { secret: new SecretText(NEXT), username: 'next' },
    prepare: async (bed: CredentialsBed) => void bed.cloud.held.splice(0),
  },
  {
    what: 'a secret whose account is another one',
    change: { secret: new SecretText(NEXT) },
    prepare: (bed: CredentialsBed) => bed.connect({ region: 'us-east-1' }),
  },
])('changing $what', async ({ change, prepare }: Changing) => {
  const begin = async () => {
    const bed = await connected()
    const id = await bed.make()
    await prepare(bed)
    return { bed, id }
  }
  const run = async (how: { idempotencyKey?: string }) =>
    await callsOf(async (steps) => {
      const { bed, id } = await begin()
      await bed.answer(bed.server(steps).change(id, change, how))
    })
  const [plain, keyed] = [await run({}), await run(KEY)]

  test.each(cases(plain))('call $at $fault: pinned is what is there', async ({ at, fault }) => {
    const { bed, id } = await begin()
    const steps = new Steps()
    steps.failAt(at, fault)
    const outcome = await outcomeOf(bed, bed.server(steps).change(id, change, {}), steps)
    const state = stateOf(bed)
    expect(bed.cloud.held.every((held) => bed.isOurs(held))).toBe(true)
    if (outcome === 'answered') expect(state).toEqual({ value: NEXT, username: change.username ?? 'bot' })
    // A box has the secret of its user name, also when the controller has been there.
    const { value, username } = afterListing(bed)
    if (value !== undefined) expect(username).toBe(value === NEXT ? (change.username ?? 'bot') : 'bot')
    // At most one new version, and the one before is there unless it was gone or left.
    for (const { versions } of bed.cloud.held)
      expect(versions.filter((one) => one === NEXT).length).toBeLessThan(2)
  })

  test.each(cases(keyed))(
    'call $at $fault: the repeat at another replica ends it, with one new version',
    async ({ at, fault }) => {
      const { bed, id } = await begin()
      const steps = new Steps()
      steps.failAt(at, fault)
      await outcomeOf(bed, bed.server(steps).change(id, change, KEY), steps)
      await bed.answer(bed.server().change(id, change, KEY))
      expect(stateOf(bed)).toEqual({ value: NEXT, username: change.username ?? 'bot' })
      expect(bed.cloud.held.flatMap(({ versions }) => versions.filter((one) => one === NEXT))).toEqual([NEXT])
      expect(bed.cloud.held).toHaveLength(1)
    },
  )
})

type Changing = {
  what: string
  change: CredentialChange
  prepare: (bed: CredentialsBed) => Promise<void>
}

/** The same once the controller has listed the account: a newer version of our own is taken, unless its fields are awaited. */
function afterListing(bed: CredentialsBed): { value: string | undefined; username: string | undefined } {
  const [credential] = bed.credentials()
  const { name, version: pinned = 0, region } = credential?.status?.parameter ?? {}
  const isIt = (held: HeldParameter) =>
    name === undefined || (held.name === name && held.location.endsWith(`/${region}`))
  const held = bed.cloud.held.find(isIt)
  const isAwaiting = credential !== undefined && hasPendingFields(credential.metadata)
  const version = isAwaiting ? pinned : (held?.versions.length ?? 0)
  return { value: held?.versions[version - 1], username: credential?.spec.username }
}

/** The secret that a box would read, and the user name that it would send with it. */
function stateOf(bed: CredentialsBed): { value: string | undefined; username: string | undefined } {
  const [credential] = bed.credentials()
  const { name, version = 0, region } = credential?.status?.parameter ?? {}
  const held = bed.cloud.held.find((one) => one.name === name && one.location.endsWith(`/${region}`))
  return { value: held?.versions[version - 1], username: credential?.spec.username }
}
