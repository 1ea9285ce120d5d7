import { describe, expect, test } from 'vitest'
import { REGION, SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { secretsSettingsResource } from '../../apis/secrets-settings.ts'

const ACCOUNT = '111111111111'
const OTHER = '222222222222'
const THIRD = '333333333333'
const MINUTE = 60_000

async function connected(): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  world.dies(undefined)
  await world.connect('acme', ACCOUNT)
  await world.elapse(5000)
  return world
}

const namesIn = (world: SecretsWorld, account = ACCOUNT) => [...world.cloud.store(account, REGION).keys()]
const connectedTo = (world: SecretsWorld) => world.allSettings()[0]?.status?.connected?.roleArn
const remove = (world: SecretsWorld) => world.remove(secretsSettingsResource, 'acme', 'default')
const never = () => new Promise<void>(() => undefined)

/** As a request by REST puts it, whose process ends before it makes the credential. */
function save(world: SecretsWorld, name: string): void {
  const { accounts } = world.process.role
  const of = { organization: 'acme', organizationUid: world.organizations.get('acme') ?? '' }
  const tags = accounts.tagsOf(
    accounts.accessAs(of, { roleArn: `arn:aws:iam::${ACCOUNT}:role/acme`, region: REGION }),
  )
  const by = `arn:aws:sts::${ACCOUNT}:assumed-role/acme/davit-acme`
  const versions = [{ value: '', by, at: world.clock.now() }]
  world.cloud.store(ACCOUNT, REGION).set(`/davit/acme/rc_${name}`, { versions, tags })
}

describe('an account that is left', () => {
  test.each([
    { how: 'for another one', leave: (world: SecretsWorld) => world.connect('acme', OTHER) },
    { how: 'with its settings', leave: remove },
  ])('$how keeps nothing of a save that was under way then', async ({ leave }) => {
    const world = await connected()
    await leave(world)
    await world.elapse(11_000)
    save(world, 'late')
    await world.elapse(MINUTE)
    expect(namesIn(world)).toEqual([])
  })

  test.each([
    { how: 'for another one', leave: (world: SecretsWorld) => world.connect('acme', OTHER) },
    { how: 'with its settings', leave: remove },
  ])('$how is listed again where that was too much at first', async ({ leave }) => {
    const world = await connected()
    save(world, 'stray')
    world.cloud.throttled.set('ssm:Describe', 3)
    await leave(world)
    await world.elapse(MINUTE)
    expect(namesIn(world)).toEqual([])
  })

  test('and was only tried is listed again where that was too much at first', async () => {
    const world = await SecretsWorld.start({ organizations: ['acme'] })
    world.cloud.refused.add('ssm:Put')
    await world.connect('acme', ACCOUNT)
    await world.elapse(2000)
    save(world, 'stray')
    world.cloud.throttled.set('ssm:Describe', 2)
    await remove(world)
    await world.elapse(MINUTE)
    expect([world.allSettings(), namesIn(world)]).toEqual([[], []])
  })

  test('and can never be listed holds up the next one for a minute', async () => {
    const world = await connected()
    world.cloud.throttled.set('ssm:Describe', 1e6)
    await world.connect('acme', OTHER)
    await world.elapse(70_000)
    expect(connectedTo(world)).toContain(OTHER)
    expect(world.events.filter(({ reason }) => reason === 'SweepFailed').length).toBeGreaterThan(0)
  })
})

describe('a pass over settings that waits for the cloud', () => {
  test('takes up at once what they are changed to', async () => {
    const world = await connected()
    world.cloud.held.set('ssm:Put', never())
    await world.connect('acme', OTHER)
    await world.elapse(2000)
    world.cloud.held.clear()
    await world.connect('acme', THIRD)
    await world.elapse(30_000)
    expect(connectedTo(world)).toContain(THIRD)
  })

  test('ends when they are deleted, and nothing is said of that', async () => {
    const world = await connected()
    world.cloud.held.set('ssm:Put', never())
    await world.connect('acme', OTHER)
    await world.elapse(2000)
    await remove(world)
    await world.elapse(30_000)
    expect(world.allSettings()).toEqual([])
    expect(world.logLines.filter(({ level }) => level !== 'info')).toEqual([])
    expect(world.events.filter(({ type }) => type === 'Warning')).toEqual([])
  })
})
