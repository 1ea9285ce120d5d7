import { describe, expect, test } from 'vitest'
import { calling } from '../../../test/support/faulty-api.ts'
import { REGION, SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { secretsSettingsResource } from '../../apis/secrets-settings.ts'
import { ApiError } from '../../kube/client.ts'

const ACCOUNT = '111111111111'
const OTHER = '222222222222'
const MINUTE = 60_000
const statusWrites = calling('patch', secretsSettingsResource, (body) => 'status' in body)

async function start(): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  world.dies(undefined)
  return world
}

async function connected(): Promise<SecretsWorld> {
  const world = await start()
  await world.connect('acme', ACCOUNT)
  await world.elapse(5000)
  return world
}

const settings = (world: SecretsWorld) => world.allSettings()[0]
const conditionOf = (world: SecretsWorld, type: string) =>
  settings(world)?.status?.conditions?.find((condition) => condition.type === type)
const callsOf = (world: SecretsWorld, name: string) =>
  world.process.life.calls.filter((call) => call === name).length
const errorsOf = (world: SecretsWorld) => world.logLines.filter(({ level }) => level === 'error')
const namesIn = (world: SecretsWorld, account = ACCOUNT) => [...world.cloud.store(account, REGION).keys()]

/** A parameter of the organization that no resource has recorded. */
function stray(world: SecretsWorld, name: string, ageMs: number, account = ACCOUNT): void {
  const { accounts } = world.process.role
  const organization = { organization: 'acme', organizationUid: world.organizations.get('acme') ?? '' }
  const access = accounts.accessAs(organization, {
    roleArn: `arn:aws:iam::${account}:role/acme`,
    region: REGION,
  })
  const by = `arn:aws:sts::${account}:assumed-role/acme/davit-acme`
  const versions = [{ value: '', by, at: world.clock.now() - ageMs }]
  world.cloud
    .store(account, REGION)
    .set(`/davit/acme/rc_${name}`, { versions, tags: accounts.tagsOf(access) })
}

describe('settings', () => {
  test('without a role say what to do, and are left alone', async () => {
    const world = await start()
    await world.settings('acme', { region: REGION })
    await world.elapse(5000)
    expect(conditionOf(world, 'Stalled')?.reason).toBe('RoleRequired')
    expect(settings(world)?.status?.trustPolicy).toContain('user/davit')
    const before = world.process.life.calls.length
    await world.elapse(10 * MINUTE)
    expect(world.process.life.calls.slice(before)).toEqual([])
  })

  test('that are refused are tried again, less and less often', async () => {
    const world = await start()
    await world.settings('acme', { region: REGION, roleArn: `arn:aws:iam::${ACCOUNT}:role/nobody` })
    await world.elapse(10 * MINUTE)
    expect(conditionOf(world, 'Stalled')?.reason).toBe('RoleRefused')
    expect(callsOf(world, 'sts:AssumeRole')).toBeLessThan(9)
    world.role('acme', ACCOUNT, 'nobody')
    await world.elapse(11 * MINUTE)
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
  })

  test('go on saying that the cloud does not answer until it does', async () => {
    const world = await start()
    world.cloud.moods.set(ACCOUNT, 'unreachable')
    await world.connect('acme', ACCOUNT)
    await world.elapse(5000)
    expect(['Ready', 'Reconciling', 'Reachable'].map((type) => conditionOf(world, type)?.reason)).toEqual([
      'CloudUnavailable',
      'CloudUnavailable',
      'CloudUnavailable',
    ])
    const { writes } = world.process.api
    await world.elapse(20 * MINUTE)
    // The time of the last try.
    expect(world.process.api.writes - writes).toBe(callsOf(world, 'sts:AssumeRole') - 1)
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(11 * MINUTE)
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
  })

  test('that are Ready are written once an hour, and listed every quarter of one', async () => {
    const world = await connected()
    const { writes } = world.process.api
    await world.elapse(50 * MINUTE)
    expect(world.process.api.writes).toBe(writes)
    // One of them when the account was tried.
    expect(callsOf(world, 'ssm:Describe')).toBe(5)
    await world.elapse(11 * MINUTE)
    expect(world.process.api.writes).toBe(writes + 1)
  })

  test('keep what was found out though the status could not be written at once', async () => {
    const world = await start()
    world.faults.fail(statusWrites, { before: new ApiError('Unavailable', 'away') }, 2)
    await world.connect('acme', ACCOUNT)
    await world.elapse(5000)
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
  })

  test('that somebody changes meanwhile are tried as they are now, and that is no error', async () => {
    const world = await start()
    world.faults.fail(statusWrites, { before: new ApiError('Conflict', 'changed', { status: 409 }) })
    await world.connect('acme', ACCOUNT)
    await world.elapse(5000)
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
    expect(errorsOf(world)).toEqual([])
  })

  test('keep their trust policy while nobody can say who Davit is', async () => {
    const world = await connected()
    const { trustPolicy } = settings(world)?.status ?? {}
    world.cloud.isSelfUnknown = true
    await world.restart()
    await world.elapse(5 * MINUTE)
    expect(settings(world)?.status?.trustPolicy).toBe(trustPolicy)
    await world.restart()
    world.cloud.isSelfUnknown = false
    await world.elapse(2 * MINUTE)
    expect(settings(world)?.status?.trustPolicy).toBe(trustPolicy)
  })

  test('get their trust policy within a minute of when that can be said', async () => {
    const world = await start()
    world.cloud.isSelfUnknown = true
    await world.settings('acme', { region: REGION })
    await world.elapse(5000)
    expect(settings(world)?.status?.trustPolicy).toBeUndefined()
    world.cloud.isSelfUnknown = false
    await world.elapse(61_000)
    expect(settings(world)?.status?.trustPolicy).toContain('user/davit')
  })

  test('of a namespace that is no organization any more say so, and are tried again when it is one', async () => {
    const world = await connected()
    world.process.organizations.remove({ name: 'acme' })
    await world.elapse(MINUTE)
    expect(conditionOf(world, 'Stalled')?.reason).toBe('NotAnOrganization')
    expect(settings(world)?.status?.connected?.region).toBe(REGION)
    const before = world.process.life.calls.length
    await world.elapse(5 * MINUTE)
    expect(world.process.life.calls.length).toBe(before)
    world.process.organizations.apply({
      name: 'acme',
      uid: world.organizations.get('acme') ?? '',
      ownerEmails: [],
    })
    await world.elapse(MINUTE)
    expect(conditionOf(world, 'Ready')?.status).toBe('True')
  })
})

describe('strays', () => {
  test('are removed when they are ten minutes old', async () => {
    const world = await connected()
    stray(world, 'old', 11 * MINUTE)
    stray(world, 'young', -10 * MINUTE)
    await world.elapse(17 * MINUTE)
    expect(namesIn(world)).toEqual(['/davit/acme/rc_young'])
    await world.elapse(17 * MINUTE)
    expect(namesIn(world)).toEqual([])
  })

  test('are removed though a credential of ECR has their name', async () => {
    const world = await connected()
    stray(world, 'old', 11 * MINUTE)
    const registry = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
    await world.credential('acme', 'old', { type: 'ecr', registry, username: undefined })
    await world.elapse(17 * MINUTE)
    expect(namesIn(world)).toEqual([])
  })

  test('that are young stay where only the role becomes another one: a request may be under way', async () => {
    const world = await connected()
    stray(world, 'young', 0)
    await world.settings('acme', { roleArn: world.role('acme', ACCOUNT, 'another') })
    await world.elapse(MINUTE)
    expect(settings(world)?.status?.connected?.roleArn).toContain('another')
    expect(namesIn(world)).toEqual(['/davit/acme/rc_young'])
  })

  test('are removed from an account that is left, whatever their age', async () => {
    const world = await connected()
    stray(world, 'young', 0)
    await world.connect('acme', OTHER)
    await world.elapse(MINUTE)
    expect(settings(world)?.status?.connected?.roleArn).toContain(OTHER)
    expect(namesIn(world)).toEqual([])
  })

  test('that cannot be removed when the account is left are on the list of orphans', async () => {
    const world = await connected()
    stray(world, 'young', 0)
    world.cloud.refused.add(`ssm:Delete ${ACCOUNT}`)
    await world.connect('acme', OTHER)
    await world.elapse(MINUTE)
    expect(world.failedDeletions()).toMatchObject([
      { name: '/davit/acme/rc_young', account: ACCOUNT, region: REGION },
    ])
  })

  test('do not end the sweep when one of them cannot be removed, and that is said', async () => {
    const world = await connected()
    world.cloud.refused.add('ssm:Delete')
    stray(world, 'old', 20 * MINUTE)
    await world.elapse(17 * MINUTE)
    expect(world.events.filter(({ reason }) => reason === 'SweepFailed')).toHaveLength(1)
    expect(errorsOf(world)).toEqual([])
  })
})

describe('settings that are deleted', () => {
  const remove = (world: SecretsWorld) => world.remove(secretsSettingsResource, 'acme', 'default')

  test('leave nothing in the account', async () => {
    const world = await connected()
    stray(world, 'young', 0)
    await remove(world)
    await world.elapse(MINUTE)
    expect([world.allSettings(), namesIn(world)]).toEqual([[], []])
  })

  test.each(['unreachable', 'denied'] as const)(
    'go within their bound though the account is %s',
    async (mood) => {
      const world = await connected()
      world.cloud.moods.set(ACCOUNT, mood)
      await remove(world)
      await world.elapse(100_000)
      expect(world.allSettings()).toEqual([])
      expect(world.logLines.filter(({ level }) => level === 'warn')).toHaveLength(1)
    },
  )

  test('go within their bound though the account never answers', async () => {
    const world = await connected()
    world.cloud.held.set('ssm:Describe', new Promise(() => undefined))
    await remove(world)
    await world.elapse(100_000)
    expect(world.allSettings()).toEqual([])
  })

  test('are gone at once where no account was ever connected', async () => {
    const world = await start()
    world.cloud.moods.set(ACCOUNT, 'unreachable')
    await world.connect('acme', ACCOUNT)
    await world.elapse(5000)
    await remove(world)
    await world.elapse(1000)
    expect(world.allSettings()).toEqual([])
  })

  test('take along what the first try of an account has left', async () => {
    const world = await start()
    world.faults.fail(statusWrites, { before: new ApiError('Unavailable', 'away') }, 1000)
    world.cloud.refused.add('ssm:Delete')
    await world.connect('acme', ACCOUNT)
    await world.elapse(2000)
    expect(namesIn(world)).toEqual(['/davit/acme/rc__probe'])
    world.cloud.refused.clear()
    await remove(world)
    await world.elapse(10_000)
    expect([world.allSettings(), namesIn(world)]).toEqual([[], []])
  })
})

test('a process ends though the cloud does not answer, and says nothing of that in a status', async () => {
  const world = await start()
  world.cloud.held.set('sts:AssumeRole', new Promise(() => undefined))
  await world.connect('acme', ACCOUNT)
  await world.elapse(1000)
  await world.process.role.stop()
  expect(settings(world)?.status).toBeUndefined()
})
