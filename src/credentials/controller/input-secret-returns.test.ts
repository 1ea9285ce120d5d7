/** An input Secret that comes back, with the value that is stored already or another one: who creates it again, and what that costs. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { REGION, SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { secrets } from '../../apis/core-kinds.ts'
import { REGISTRY_SECRET_TYPE } from '../../apis/registry-credential.ts'

const ACCOUNT = '111111111111'
const SECRET = { namespace: 'acme', name: 'handover' }
const MINUTE = 60_000

type Metadata = {
  annotations?: object
  labels?: object
  ownerReferences?: object[]
  managedFields?: object[]
}

const RETAINED: Metadata = { annotations: { 'davit.dev/retain': 'true' } }
const ownedBy = (kind: string, name: string): Metadata => ({
  labels: { 'reconcile.external-secrets.io/managed': 'true' },
  ownerReferences: [{ apiVersion: 'v1', kind, name, uid: 'o-1', controller: true }],
})
const BY_SCRIPT: Metadata = {
  managedFields: [{ manager: 'kubectl-create', operation: 'Update', fieldsV1: { 'f:data': {} } }],
}

async function create(world: SecretsWorld, value: string, metadata: Metadata): Promise<void> {
  await world.cluster.create(secrets, {
    metadata: { ...SECRET, ...metadata },
    type: REGISTRY_SECRET_TYPE,
    data: { secret: Buffer.from(value).toString('base64') },
  })
}

async function stored(metadata: Metadata): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  await world.connect('acme', ACCOUNT)
  await create(world, 'v-1', metadata)
  await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(5000)
  return world
}

/** `kubectl replace --force`, or an operator that restores what is missing. */
async function createAgain(world: SecretsWorld, value: string, metadata: Metadata): Promise<void> {
  await world.remove(secrets, 'acme', 'handover')
  await create(world, value, metadata)
  await world.elapse(MINUTE)
}

/** Creates the Secret whenever it is gone. @param nextValue the creation, counted from 1 @returns how often it did */
async function keepCreating(
  world: SecretsWorld,
  metadata: Metadata,
  ms: number,
  nextValue: (count: number) => string = () => 'v-1',
): Promise<number> {
  let count = 0
  for (let passed = 0; passed < ms; passed += 2000) {
    if (!(await isThere(world))) {
      count += 1
      await create(world, nextValue(count), metadata)
    }
    await world.elapse(2000)
  }
  return count
}

const isThere = async (world: SecretsWorld) => (await world.find(secrets, SECRET)) !== undefined
const statusOf = (world: SecretsWorld) => world.credentialOf('acme', 'ghcr')?.status
const conditionOf = (world: SecretsWorld, type: string) =>
  statusOf(world)?.conditions?.find((condition) => condition.type === type)
const valuesIn = (world: SecretsWorld) =>
  world.cloud
    .store(ACCOUNT, REGION)
    .get('/davit/acme/rc_ghcr')
    ?.versions.map(({ value }) => value)

describe('a Secret that a controller owns', () => {
  test.each([
    { kind: 'ExternalSecret', name: 'ghcr' },
    { kind: 'SealedSecret', name: 'handover' },
    { kind: 'Certificate', name: 'a.b' },
    { kind: 'VaultStaticSecret', name: 'registry' },
  ])('$kind is one version, is not deleted, and the condition says what to do', async ({ kind, name }) => {
    const world = await stored(ownedBy(kind, name))
    expect(await keepCreating(world, ownedBy(kind, name), 5 * MINUTE)).toBe(0)
    expect([valuesIn(world), conditionOf(world, 'Stored')?.status]).toEqual([['v-1'], 'True'])
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
    expect(conditionOf(world, 'InputSecretKept')).toMatchObject({
      status: 'True',
      reason: 'OwnedByController',
      message: expect.stringContaining(`owned by ${kind} ${name}`),
    })
    expect(conditionOf(world, 'InputSecretKept')?.message).toContain('davit.dev/retain: "true"')
  })

  test('has its condition before anything can be stored', async () => {
    const world = await SecretsWorld.start({ organizations: ['acme'] })
    await create(world, 'v-1', ownedBy('ExternalSecret', 'ghcr'))
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(5000)
    expect(conditionOf(world, 'InputSecretKept')?.reason).toBe('OwnedByController')
    expect(conditionOf(world, 'Stored')?.status).toBe('False')
  })

  test('is a new version only when its controller writes another value', async () => {
    const world = await stored(ownedBy('ExternalSecret', 'ghcr'))
    await createAgain(world, 'v-1', ownedBy('ExternalSecret', 'ghcr'))
    await world.cluster.patch(secrets, SECRET, { metadata: { labels: { refreshed: 'again' } } })
    await world.elapse(MINUTE)
    expect(valuesIn(world)).toEqual(['v-1'])
    await world.handOver('acme', 'handover', 'v-2')
    await world.elapse(MINUTE)
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1', 'v-2'], true])
  })

  test('loses the condition once it is retained, and serves several credentials', async () => {
    const world = await stored(ownedBy('ExternalSecret', 'ghcr'))
    await world.credential('acme', 'younger', { secretRef: { name: 'handover' } })
    await world.cluster.patch(secrets, SECRET, { metadata: RETAINED })
    await world.elapse(MINUTE)
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
    const younger = world.credentialOf('acme', 'younger')?.status?.conditions
    expect(younger?.find(({ type }) => type === 'Stored')?.status).toBe('True')
    expect(valuesIn(world)).toEqual(['v-1'])
  })

  test('causes no write while nothing changes', async () => {
    const world = await stored(ownedBy('ExternalSecret', 'ghcr'))
    await world.elapse(17 * MINUTE)
    const { writes } = world.process.api
    await world.elapse(35 * MINUTE)
    expect(world.process.api.writes).toBe(writes)
  })
})

describe('an input Secret without the retain annotation that is recreated after each deletion', () => {
  test.each<{ what: string; metadata: Metadata; want: string }>([
    { what: 'a script', metadata: BY_SCRIPT, want: 'field manager kubectl-create' },
    {
      what: 'a tool of Git',
      metadata: {
        labels: { 'kustomize.toolkit.fluxcd.io/name': 'apps' },
        managedFields: [{ manager: 'kustomize-controller', operation: 'Apply', fieldsV1: { 'f:data': {} } }],
      },
      want: 'field manager kustomize-controller',
    },
    {
      what: 'an owner that is no controller',
      metadata: { ownerReferences: [{ kind: 'ExternalSecret', name: 'ghcr', uid: 'o-1' }] },
      want: 'recreated 3 times',
    },
    { what: 'one of whom nothing is known', metadata: {}, want: 'recreated 3 times' },
  ])('$what: one version, three deletions, and then a condition', async ({ metadata, want }) => {
    const world = await stored(metadata)
    expect(await isThere(world)).toBe(false)
    expect(await keepCreating(world, metadata, 20 * MINUTE)).toBe(3)
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1'], true])
    expect(conditionOf(world, 'InputSecretKept')).toMatchObject({ status: 'True', reason: 'Recreated' })
    expect(conditionOf(world, 'InputSecretKept')?.message).toContain(want)
    expect(conditionOf(world, 'InputSecretKept')?.message).toContain('davit.dev/retain: "true"')
    await world.restart()
    await world.elapse(5 * MINUTE)
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1'], true])
  })

  test('is taken for new, and deleted, as soon as its value changes', async () => {
    const world = await stored(BY_SCRIPT)
    await keepCreating(world, BY_SCRIPT, 20 * MINUTE)
    await world.handOver('acme', 'handover', 'v-2')
    await world.elapse(MINUTE)
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1', 'v-2'], false])
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
    // Whatever created it again may do so with the new value, too.
    await keepCreating(world, BY_SCRIPT, 20 * MINUTE, () => 'v-2')
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1', 'v-2'], true])
  })

  test('loses the condition once it is deleted for good', async () => {
    const world = await stored(BY_SCRIPT)
    await keepCreating(world, BY_SCRIPT, 20 * MINUTE)
    await world.remove(secrets, 'acme', 'handover')
    await world.elapse(MINUTE)
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
  })

  test('is deleted as before if a person provides the same value again, though the account fails', async () => {
    const world = await stored({})
    await createAgain(world, 'v-1', {})
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1'], false])
    await world.settings('acme', { region: REGION, roleArn: 'arn:aws:iam::222222222222:role/nobody' })
    await world.elapse(5000)
    await createAgain(world, 'v-1', {})
    expect([valuesIn(world), await isThere(world)]).toEqual([['v-1'], false])
  })
})

describe('an input Secret that is recreated after each deletion with other values', () => {
  const all = (count: number) => Array.from({ length: count }, (_, i) => `v-${i + 1}`)

  test.each<{ what: string; nextValue: (count: number) => string; want: string[] }>([
    { what: 'always another one', nextValue: (count) => `v-${count + 1}`, want: all(4) },
    {
      what: 'two by turns',
      nextValue: (count) => `v-${1 + (count % 2)}`,
      want: ['v-1', 'v-2', 'v-1', 'v-2'],
    },
    { what: 'first the same, then others', nextValue: (count) => `v-${Math.max(1, count)}`, want: all(3) },
    { what: 'one other, which is the same then', nextValue: () => 'v-2', want: ['v-1', 'v-2'] },
  ])('$what: three deletions, and then a condition', async ({ nextValue, want }) => {
    const world = await stored(BY_SCRIPT)
    expect(await keepCreating(world, BY_SCRIPT, 20 * MINUTE, nextValue)).toBe(3)
    expect([valuesIn(world), await isThere(world)]).toEqual([want, true])
    expect(conditionOf(world, 'InputSecretKept')).toMatchObject({
      status: 'True',
      reason: 'Recreated',
      message: expect.stringContaining(
        'The Secret handover was recreated 3 times after Davit stored its value and deleted it. Davit therefore no longer deletes it.',
      ),
    })
    await world.restart()
    await world.elapse(20 * MINUTE)
    expect([valuesIn(world), await isThere(world)]).toEqual([want, true])
  })

  test('takes two versions for each value that is written into the one that stays', async () => {
    const world = await stored(BY_SCRIPT)
    await keepCreating(world, BY_SCRIPT, 20 * MINUTE, (count) => `v-${count + 1}`)
    for (const hour of [1, 2]) {
      await world.handOver('acme', 'handover', `refreshed-${hour}`)
      expect(await keepCreating(world, BY_SCRIPT, 60 * MINUTE, () => `generated-${hour}`)).toBe(1)
    }
    const written = ['refreshed-1', 'generated-1', 'refreshed-2', 'generated-2']
    expect(valuesIn(world)).toEqual([...all(4), ...written])
    expect(conditionOf(world, 'InputSecretKept')?.reason).toBe('Recreated')
  })

  test.each([
    { what: 'a quarter of an hour', ms: 15 * MINUTE },
    { what: 'an hour', ms: 60 * MINUTE },
    { what: 'a day', ms: 24 * 60 * MINUTE },
  ])('is one that a person rotates if $what passes in between: each is deleted', async ({ ms }) => {
    const world = await stored(BY_SCRIPT)
    for (const count of [2, 3, 4, 5, 6]) {
      await world.elapse(ms)
      await createAgain(world, `v-${count}`, BY_SCRIPT)
      expect(await isThere(world)).toBe(false)
    }
    expect(valuesIn(world)).toEqual(all(6))
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
    expect(statusOf(world)?.handover).not.toHaveProperty('returns')
  })

  test('is one that a person corrects twice at once', async () => {
    const world = await stored(BY_SCRIPT)
    for (const count of [2, 3]) await createAgain(world, `v-${count}`, BY_SCRIPT)
    expect([valuesIn(world), await isThere(world)]).toEqual([all(3), false])
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
  })
})

describe('a retained Secret that is created again', () => {
  test.each([
    { what: 'once', times: 1, restarts: false },
    { what: 'twice', times: 2, restarts: false },
    { what: 'ten times', times: 10, restarts: false },
    { what: 'before each restart of Davit', times: 3, restarts: true },
  ])('with the same value, $what, is no new version', async ({ times, restarts }) => {
    const world = await stored(RETAINED)
    for (let count = 0; count < times; count += 1) {
      if (restarts) await world.restart()
      await createAgain(world, 'v-1', RETAINED)
    }
    expect([valuesIn(world), statusOf(world)?.parameter?.version]).toEqual([['v-1'], 1])
    const { metadata } = await world.cluster.get(secrets, SECRET)
    expect(statusOf(world)?.handover).toMatchObject({
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
    })
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
  })

  test('with another value is a new version, and with the one before that another', async () => {
    const world = await stored(RETAINED)
    for (const value of ['v-2', 'v-1']) await createAgain(world, value, RETAINED)
    expect(valuesIn(world)).toEqual(['v-1', 'v-2', 'v-1'])
  })

  test('under another name, which was there before, was not created again', async () => {
    const world = await stored(BY_SCRIPT)
    for (const number of [2, 3, 4, 5]) {
      const data = { secret: Buffer.from(`v-${number}`).toString('base64') }
      const metadata = { namespace: 'acme', name: `other-${number}`, ...BY_SCRIPT }
      await world.cluster.create(secrets, { metadata, type: REGISTRY_SECRET_TYPE, data })
    }
    for (const number of [2, 3, 4, 5]) {
      await world.elapse(10 * MINUTE)
      await world.credential('acme', 'ghcr', { secretRef: { name: `other-${number}` } })
      await world.elapse(MINUTE)
      expect(await world.find(secrets, { namespace: 'acme', name: `other-${number}` })).toBeUndefined()
    }
    expect(conditionOf(world, 'InputSecretKept')).toBeUndefined()
  })

  test('under another name is no new version', async () => {
    const world = await stored(RETAINED)
    const other = { metadata: { namespace: 'acme', name: 'other', ...RETAINED } }
    const data = { secret: Buffer.from('v-1').toString('base64') }
    await world.cluster.create(secrets, { ...other, type: REGISTRY_SECRET_TYPE, data })
    await world.credential('acme', 'ghcr', { secretRef: { name: 'other' } })
    await world.elapse(MINUTE)
    expect(valuesIn(world)).toEqual(['v-1'])
  })
})

test.each([RETAINED, {}, ownedBy('ExternalSecret', 'ghcr')])(
  'the status tells nothing of the value, and not whether it is the same as before: %j',
  async (metadata) => {
    const world = await stored(metadata)
    const before = JSON.stringify(statusOf(world))
    await createAgain(world, 'v-1', metadata)
    const after = JSON.stringify(statusOf(world))
    const hash = createHash('sha256').update('v-1').digest()
    for (const text of [before, after])
      for (const told of ['v-1', Buffer.from('v-1').toString('base64'), hash.toString('hex')])
        expect(text).not.toContain(told)
    const markIn = (text: string) => /"mark":"([0-9a-z]{26})"/.exec(text)?.[1]
    expect(markIn(before)).toBeDefined()
    expect(markIn(after)).not.toBe(markIn(before))
  },
)
