import { describe, expect, test } from 'vitest'
import {
  A,
  B,
  type CredentialWorld,
  DENIED,
  GONE,
  locationOf,
  RETRY,
  SECRET,
  SPEC,
  storedWorld,
  world,
} from '../../../test/support/credential-world.ts'

const REPLACED = { kind: 'replaced', by: 'mallory', version: 1, type: 'SecureString' } as const

describe('a hand-over Secret', () => {
  test('is stored, and then deleted', () => {
    const one = world({ hasFinalizer: false, secret: SECRET })
    one.run()
    expect(one.steps).toEqual(['add-finalizer', 'put-new', 'delete-input-secret', 'nothing'])
    expect(one.secret).toBeUndefined()
    expect(one.cloud.get(A)).toEqual({ owner: 'ours', value: 'v-1', version: 1 })
  })

  test('that is retained stays, and a change of it is a new version', () => {
    const one = world({ secret: { ...SECRET, retained: true } })
    one.run()
    one.secret = { ...SECRET, retained: true, resourceVersion: '8', value: 'v-2' }
    one.run()
    expect(one.steps).toEqual(['put-new', 'nothing', 'look', 'put-version', 'nothing'])
    expect(one.stored?.version).toBe(2)
  })

  test('that is retained and only gets another label is no new version, and what was seen is noted', () => {
    const one = world({ secret: { ...SECRET, retained: true } })
    one.run()
    one.secret = { ...SECRET, retained: true, resourceVersion: '8' }
    one.run()
    one.run()
    expect(one.steps).toEqual(['put-new', 'nothing', 'record-input-secret', 'nothing', 'nothing'])
    expect([one.stored?.version, one.storedInputSecret?.resourceVersion]).toEqual([1, '8'])
  })

  test('that is retained no more is deleted, and is no new version', () => {
    const one = world({ secret: { ...SECRET, retained: true } })
    one.run()
    one.secret = { ...SECRET, resourceVersion: '8' }
    one.run()
    expect(one.steps).toEqual(['put-new', 'nothing', 'delete-input-secret', 'nothing'])
  })

  test('that is made again has another value', () => {
    const one = storedWorld({ secret: { ...SECRET, uid: 'u-2', value: 'v-2' } })
    one.run()
    expect(one.steps).toEqual(['look', 'put-version', 'delete-input-secret', 'nothing'])
  })

  test('that is created again with the value that is stored is noted and deleted, and is no new version', () => {
    const one = world({ secret: SECRET })
    one.run()
    one.secret = { ...SECRET, uid: 'u-2', resourceVersion: '9' }
    one.run()
    expect(one.steps.slice(3)).toEqual(['record-input-secret', 'delete-input-secret', 'nothing'])
    expect([one.stored?.version, one.storedInputSecret]).toMatchObject([1, { uid: 'u-2', returns: 1 }])
  })

  const CHANGED = { kind: 'changed', by: 'mallory', version: 2 } as const
  test.each<{ what: string; change: Partial<CredentialWorld> }>([
    {
      what: 'another writer wrote a newer version',
      change: { listing: { state: 'recorded', drift: CHANGED } },
    },
    {
      what: 'another writer wrote it with another key',
      change: { listing: { state: 'recorded', drift: { kind: 'key', by: 'mallory', key: 'alias/other' } } },
    },
    {
      what: 'the settings name another key',
      change: { account: { state: 'ready', location: { ...locationOf(A), kmsKeyId: 'alias/ours' } } },
    },
  ])('that is created again with the value that is stored restores the parameter if $what', ({ change }) => {
    for (const more of [{}, { retained: true }, { owner: 'ExternalSecret ghcr' }]) {
      const one = world({ secret: { ...SECRET, ...more } })
      one.run()
      Object.assign(one, change)
      one.run()
      expect(one.stored?.version).toBe(1)
      one.secret = { ...SECRET, ...more, uid: 'u-2', resourceVersion: '9' }
      one.run()
      expect(one.stored?.version).toBe(2)
    }
  })

  test('that has the value of before again is a new version after a put whose end is not known', () => {
    const one = world({ secret: { ...SECRET, retained: true } })
    one.run()
    one.secret = { ...SECRET, retained: true, resourceVersion: '8', value: 'v-2' }
    // The account has the new value, and the status does not.
    one.run([], 2)
    expect([one.cloud.get(A)?.value, one.stored?.version]).toEqual(['v-2', 1])
    one.secret = { ...SECRET, retained: true, resourceVersion: '9' }
    one.run()
    expect(one.cloud.get(A)).toEqual({ owner: 'ours', value: 'v-1', version: 3 })
    expect(one.stored?.version).toBe(3)
  })

  test('is stored anew where a predecessor was not removed, so that none of its versions stays', () => {
    const one = world({ secret: SECRET })
    one.cloud.set(A, { owner: 'ours', value: 'old', version: 9 })
    one.run()
    expect(one.steps).toEqual(['put-new', 'look', 'remove', 'put-new', 'delete-input-secret', 'nothing'])
    expect(one.cloud.get(A)?.version).toBe(1)
  })

  test('leaves alone what somebody else has under the name, for every version of it', () => {
    const theirs = { owner: 'not-ours', value: 'theirs', version: 3 } as const
    const fresh = world({ secret: SECRET })
    fresh.cloud.set(A, theirs)
    expect(fresh.run()).toMatchObject({ step: 'refuse', reason: 'ParameterNotOwned' })
    const later = storedWorld({ secret: { ...SECRET, resourceVersion: '8' } })
    later.cloud.set(A, theirs)
    expect(later.run()).toMatchObject({ step: 'refuse', reason: 'ParameterNotOwned' })
    for (const one of [fresh, later]) {
      expect(one.cloud.get(A)).toEqual(theirs)
      expect(one.secret).toBeDefined()
    }
  })

  test('is put with its tags where the parameter is gone', () => {
    const one = storedWorld({ secret: { ...SECRET, resourceVersion: '8' } })
    one.cloud.delete(A)
    one.run()
    expect(one.steps).toEqual(['look', 'put-new', 'delete-input-secret', 'nothing'])
  })

  test('that is retained is put again where a listing misses the parameter', () => {
    const one = storedWorld({ secret: { ...SECRET, retained: true } })
    one.cloud.delete(A)
    one.listing = { state: 'recorded', drift: { kind: 'missing' } }
    one.run()
    expect(one.steps).toEqual(['put-new', 'nothing'])
  })

  test('that is retained is put again where somebody made the parameter anew, with the tags of Davit', () => {
    const one = storedWorld({ secret: { ...SECRET, retained: true } })
    one.listing = { state: 'recorded', drift: REPLACED }
    one.run()
    expect(one.steps).toEqual(['look', 'put-version', 'nothing'])
  })

  test('that is retained is put again by itself once what somebody made anew is removed', () => {
    const one = storedWorld({ secret: { ...SECRET, retained: true } })
    one.meddle(A, { owner: 'not-ours', value: 'theirs', version: 1 })
    one.listing = { state: 'recorded', drift: REPLACED }
    const step = one.run()
    expect(step).toMatchObject({ step: 'refuse', reason: 'ParameterReplaced' })
    expect(step).toHaveProperty(
      'message',
      expect.stringContaining('Davit will then store the value of the Secret '),
    )
    expect(step).toHaveProperty('message', expect.not.stringContaining('Provide the secret again'))
    one.meddle(A, undefined)
    one.run()
    expect(one.steps).toEqual(['look', 'refuse', 'look', 'put-new', 'nothing'])
  })

  test('that an older credential names, too, is left to that one', () => {
    for (const secret of [SECRET, undefined]) {
      const one = world({ secret, sharedWith: 'older' })
      expect(one.run()).toMatchObject({
        step: 'refuse',
        reason: 'SecretShared',
        message: expect.stringContaining('the older credential older'),
      })
    }
    expect(storedWorld({ sharedWith: 'older' }).run()).toMatchObject({ step: 'nothing' })
  })

  test('that is retained serves as many credentials as name it', () => {
    const one = world({ secret: { ...SECRET, retained: true }, sharedWith: 'older' })
    expect(one.run()).toMatchObject({ step: 'nothing' })
    expect(one.cloud.get(A)?.value).toBe('v-1')
  })

  test('stays while the name is not free again after a removal', () => {
    const taken = { remedy: 'spec', code: 'ParameterAlreadyExists', message: '' } as const
    const one = world({ secret: SECRET })
    one.cloud.set(A, { owner: 'ours', value: 'old', version: 9 })
    expect(one.run([undefined, undefined, undefined, taken])).toMatchObject({ step: 'wait' })
    expect(one.secret).toBeDefined()
  })

  test.each([
    { failure: RETRY, want: { step: 'wait', reason: 'CloudUnavailable' } },
    { failure: DENIED, want: { step: 'refuse', reason: 'AccessDenied' } },
    { failure: SPEC, want: { step: 'refuse', reason: 'CloudRefused' } },
    { failure: GONE, want: { step: 'wait', reason: 'CloudUnavailable' } },
  ])('that AWS refuses with $failure.code makes $want.reason, with its words', ({ failure, want }) => {
    const one = world({ secret: SECRET })
    expect(one.run([failure])).toMatchObject({
      ...want,
      message: expect.stringContaining(`${failure.code}: ${failure.message}`),
    })
  })
})

describe('without a ready account', () => {
  test.each([
    { account: { state: 'missing' }, want: { step: 'wait', reason: 'SettingsRequired' } },
    {
      account: { state: 'connecting', message: 'soon' },
      want: { step: 'wait', reason: 'ConnectingAccount', message: 'soon' },
    },
    {
      account: { state: 'stalled', message: 'no role' },
      want: { step: 'refuse', reason: 'AccountNotReady', message: 'no role' },
    },
  ] as const)('that is $account.state nothing is put', ({ account, want }) => {
    const one = world({ secret: SECRET, account })
    expect(one.run()).toMatchObject(want)
    expect(one.cloud.size).toBe(0)
  })

  test.each([
    { state: 'connecting', message: '' },
    { state: 'stalled', message: '' },
  ] as const)('that is $state what is stored stays', (account) => {
    const one = storedWorld({ account })
    expect(one.run()).toMatchObject({ step: 'nothing' })
    expect(one.cloud.size).toBe(1)
  })
})

describe('an account that fails for good', () => {
  const account = { state: 'stalled', message: 'no role' } as const

  test('keeps no copy of what is stored in the cluster, unless it is to be retained', () => {
    const one = storedWorld({ secret: SECRET, account })
    one.run()
    expect(one.steps).toEqual(['delete-input-secret', 'nothing'])
    expect(storedWorld({ secret: { ...SECRET, retained: true }, account }).run()).toMatchObject({
      step: 'refuse',
      reason: 'AccountNotReady',
    })
  })

  test.each([{ kind: 'missing' }, REPLACED] as const)(
    'keeps the Secret where the parameter is $kind: it is the only copy',
    (drift) => {
      const one = storedWorld({ secret: SECRET, account, listing: { state: 'recorded', drift } })
      expect(one.run()).toMatchObject({ step: 'refuse', reason: 'AccountNotReady' })
      expect(one.secret).toBeDefined()
    },
  )
})

describe('a change of the account', () => {
  const moves: [string, Partial<CredentialWorld>][] = [
    ['to another one', { account: { state: 'ready', location: locationOf(B) } }],
    [
      'to another region',
      { account: { state: 'ready', location: { ...locationOf(A), region: 'us-east-1' } } },
    ],
  ]

  test.each(moves)('%s removes the old parameter and asks for the secret', (_, change) => {
    const one = storedWorld(change)
    expect(one.run()).toMatchObject({ step: 'refuse', reason: 'AccountChanged' })
    expect(one.steps).toEqual(['look', 'remove', 'forget', 'refuse'])
    expect(one.run()).toMatchObject({ reason: 'AccountChanged' })
  })

  test.each(moves)('%s puts a retained Secret again', (_, change) => {
    const one = storedWorld({ ...change, secret: { ...SECRET, retained: true } })
    one.run()
    expect(one.steps).toEqual(['look', 'remove', 'forget', 'put-new', 'nothing'])
  })

  test('to another role of the account leaves the parameter where it is', () => {
    const location = { ...locationOf(A), roleArn: 'arn:aws:iam::111111111111:role/other' }
    expect(storedWorld({ account: { state: 'ready', location } }).run()).toMatchObject({ step: 'nothing' })
  })

  test('removes the parameter where the settings are deleted, too', () => {
    const one = storedWorld({ account: { state: 'missing' } })
    expect(one.run()).toMatchObject({ reason: 'AccountChanged' })
    expect(one.cloud.size).toBe(0)
  })

  test('waits for a parameter that was written a moment ago and is not shown yet', () => {
    const one = storedWorld({ account: { state: 'ready', location: locationOf(B) }, writtenAt: 995_000 })
    const shown = one.cloud.get(A)
    one.cloud.delete(A)
    expect(one.run()).toMatchObject({ step: 'wait', reason: 'Storing', until: 1_005_000 })
    one.now = 1_005_000
    if (shown) one.cloud.set(A, shown)
    expect(one.run()).toMatchObject({ step: 'refuse', reason: 'AccountChanged' })
    expect(one.cloud.size).toBe(0)
  })

  test.each([RETRY, DENIED])('records an orphan where AWS answers $code, and goes on', (failure) => {
    const one = storedWorld({ account: { state: 'ready', location: locationOf(B) } })
    one.run([undefined, failure])
    expect(one.steps).toEqual(['look', 'remove', 'record-failed-deletion', 'forget', 'refuse'])
    expect([...one.failedDeletions]).toEqual([A])
  })

  test('does not take the only copy of a secret away', () => {
    const one = storedWorld({ secret: SECRET, account: { state: 'connecting', message: '' } })
    expect(one.run()).toMatchObject({ step: 'wait' })
    expect(one.secret).toBeDefined()
  })
})
