import { describe, expect, it } from 'vitest'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { chooseByHost, chooseByImage, foreignParameter, usernamesByHost } from './credential-choice.ts'

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'

function token(id: string, registry: string, repositories: string[], version = 1): BoxCredential {
  const parameter = { name: `/davit/acme/${id}`, version, region: 'eu-west-1' }
  return { id, type: 'token', registry, repositories, username: `${id}-user`, parameter }
}

function ecr(id: string, repositories = ['api']): BoxCredential {
  return { id, type: 'ecr', registry: ECR, repositories }
}

function map(credentials: BoxCredential[], name = 'web', namespace = 'acme'): BoxCredentials {
  return { version: 1, template: { namespace, name }, bake: 'web-1', credentials }
}

const TEAMS = map([
  token('rc_a', 'ghcr.io', ['team-a/api', 'team-a/tools/cli']),
  token('rc_b', 'ghcr.io', ['team-b/web', 'shared/base']),
  token('rc_hub', 'docker.io', ['acme/api']),
])

const byImage = (maps: BoxCredentials[], host: string, repository: string) => {
  const { of, several } = chooseByImage(maps, { host, repository })
  return of === undefined ? several : `${of.credential.id} for the ${of.scope}`
}

describe('the credential of a host', () => {
  it('is the only one that there is', () => {
    expect(chooseByHost([TEAMS], 'docker.io').of?.credential.id).toBe('rc_hub')
  })

  it.each(['ghcr.io:443', 'GHCR.io', 'ghcr.io.', 'Ghcr.io.:443'])(
    'is found in a file that spells it %s, and two spellings are one host',
    (registry) => {
      const maps = [map([token('rc_a', registry, ['a/x'])])]
      expect(chooseByHost(maps, 'ghcr.io').of?.credential.id).toBe('rc_a')
      expect(byImage(maps, 'ghcr.io', 'a/x')).toBe('rc_a for the repository')
      expect([...usernamesByHost(maps).keys()]).toEqual(['ghcr.io'])
      expect(chooseByHost([...maps, TEAMS], 'ghcr.io').several).toEqual(['acme/rc_a', 'acme/rc_b'])
    },
  )

  it('is none where no map has the host', () => {
    expect(chooseByHost([TEAMS], 'quay.io')).toEqual({})
    expect(chooseByHost([], 'ghcr.io')).toEqual({})
  })

  it('is not guessed among several', () => {
    expect(chooseByHost([TEAMS], 'ghcr.io')).toEqual({ several: ['acme/rc_a', 'acme/rc_b'] })
  })

  it('is the same one in two maps, as the later bake has read it', () => {
    // Versions begin anew where the credential was deleted and made again.
    const later = { ...map([token('rc_a', 'ghcr.io', ['a/x'], 1)]), bakedAt: '2026-02-01T00:00:00.000Z' }
    const before = {
      ...map([token('rc_a', 'ghcr.io', ['a/y'], 4)], 'db'),
      bakedAt: '2026-01-31T12:00:00.000Z',
    }
    for (const maps of [
      [later, before],
      [before, later],
    ])
      expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({
        parameter: { version: 1 },
        repositories: ['a/y', 'a/x'],
      })
  })

  it('is of the newer generation of it, whichever bake was decided later', () => {
    const of = (generation: number, version: number, orderedAt: string) => ({
      ...map([{ ...token('rc_a', 'ghcr.io', ['a/x'], version), uid: 'one', generation }]),
      orderedAt,
    })
    const maps = [of(3, 2, '2026-01-31T12:00:00Z'), of(2, 9, '2026-01-31T13:00:00Z')]
    expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({ generation: 3 })
  })

  it('is as it was decided last where it was deleted and made again: its generations begin anew', () => {
    const of = (uid: string | undefined, generation: number, orderedAt: string) => ({
      ...map([{ ...token('rc_a', 'ghcr.io', ['a/x'], generation), ...(uid ? { uid } : {}), generation }]),
      orderedAt,
    })
    for (const [first, second] of [
      ['one', 'two'],
      [undefined, undefined],
    ]) {
      const maps = [of(first, 3, '2026-01-31T12:00:00Z'), of(second, 1, '2026-01-31T13:00:00Z')]
      expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({ generation: 1 })
    }
  })

  it('is the last of the same generation, whatever its version', () => {
    const of = (version: number, orderedAt: string) => ({
      ...map([{ ...token('rc_a', 'ghcr.io', ['a/x'], version), uid: 'one', generation: 2 }]),
      orderedAt,
    })
    const maps = [of(9, '2026-01-31T12:00:00Z'), of(2, '2026-01-31T13:00:00Z')]
    expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({ parameter: { version: 2 } })
  })

  it('is as the controller decided last, however long the bakes took', () => {
    const of = (version: number, orderedAt: string, bakedAt: string) => ({
      ...map([token('rc_a', 'ghcr.io', ['a/x'], version)]),
      orderedAt,
      bakedAt,
    })
    const maps = [
      of(1, '2026-01-31T12:00:00Z', '2026-01-31T14:00:00Z'),
      of(2, '2026-01-31T12:30:00Z', '2026-01-31T12:31:00Z'),
    ]
    expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({ parameter: { version: 2 } })
  })

  it('is the newer version in maps that do not say when', () => {
    const maps = [map([token('rc_a', 'ghcr.io', ['a/x'], 2)]), map([token('rc_a', 'ghcr.io', ['a/x'], 1)])]
    expect(chooseByHost(maps, 'ghcr.io').of?.credential).toMatchObject({ parameter: { version: 2 } })
  })

  it('is none that has become one for another host: its name leads to the secret of that', () => {
    const before = { ...map([token('rc_a', 'ghcr.io', ['a/x'])]), orderedAt: '2026-01-31T12:00:00Z' }
    const after = { ...map([token('rc_a', 'quay.io', ['b/y'])], 'db'), orderedAt: '2026-02-01T12:00:00Z' }
    for (const maps of [
      [before, after],
      [after, before],
    ]) {
      expect(chooseByHost(maps, 'ghcr.io')).toEqual({})
      expect(chooseByHost(maps, 'quay.io').of?.credential).toMatchObject({ repositories: ['b/y'] })
    }
  })

  it('is not that of another organization of the same name', () => {
    const other = map([token('rc_a', 'ghcr.io', ['a/x'])], 'web', 'other')
    const maps = [map([token('rc_a', 'ghcr.io', ['a/x'])]), other]
    expect(chooseByHost(maps, 'ghcr.io')).toEqual({ several: ['acme/rc_a', 'other/rc_a'] })
  })

  it('is any of several for ECR, whose token is that of the role', () => {
    expect(chooseByHost([map([ecr('rc_two'), ecr('rc_one')])], ECR).of?.credential.id).toBe('rc_one')
  })
})

describe('the hosts that are listed', () => {
  it('are those with one credential, each with its user name', () => {
    expect([...usernamesByHost([TEAMS, map([ecr('rc_ecr')], 'db')])]).toEqual([
      [ECR, 'AWS'],
      ['docker.io', 'rc_hub-user'],
    ])
  })
})

const IMAGES = [
  ['ghcr.io', 'team-a/api', 'rc_a for the repository', 'an image of the box'],
  ['ghcr.io', 'team-b/web', 'rc_b for the repository', 'an image of the box with another one'],
  ['ghcr.io', 'team-a/other', 'rc_a for the repository', 'an image of the same team'],
  ['ghcr.io', 'team-a/tools/other', 'rc_a for the repository', 'an image deeper down'],
  ['ghcr.io', 'shared/else', 'rc_b for the repository', 'an image beside the second repository'],
  ['ghcr.io', 'team-c/api', undefined, 'an image of nobody'],
  ['ghcr.io', 'team', undefined, 'an image whose name begins like that of a team'],
  ['docker.io', 'library/postgres', undefined, 'a public image of a host that has a credential'],
  ['quay.io', 'team-a/api', undefined, 'an image of another host'],
] as const

describe('the credential of an image', () => {
  it.each(IMAGES)('%s/%s: %s, as %s', (host, repository, want) => {
    expect(byImage([TEAMS], host, repository)).toBe(want)
  })

  it('is that of the longer path that is shared', () => {
    const maps = [map([token('rc_org', 'r.io', ['org/a']), token('rc_team', 'r.io', ['org/team/a'])])]
    expect(byImage(maps, 'r.io', 'org/team/b')).toBe('rc_team for the repository')
  })

  it('is not guessed where two share as much', () => {
    const maps = [map([token('rc_x', 'r.io', ['org/a']), token('rc_y', 'r.io', ['org/b'])])]
    expect(byImage(maps, 'r.io', 'org/c')).toEqual(['acme/rc_x', 'acme/rc_y'])
    expect(byImage(maps, 'r.io', 'org/b')).toBe('rc_y for the repository')
  })

  it('is the one with which this very image was baked last', () => {
    const of = (id: string, name: string, orderedAt: string) => ({
      ...map([token(id, 'r.io', ['org/a'])], name),
      orderedAt,
    })
    const old = of('rc_a', 'web', '2026-01-31T12:00:00Z')
    const last = of('rc_b', 'db', '2026-02-01T12:00:00Z')
    expect(byImage([old, last], 'r.io', 'org/a')).toBe('rc_b for the repository')
    expect(byImage([last, old], 'r.io', 'org/a')).toBe('rc_b for the repository')
  })

  it('is one that opened this very image, where two templates used different ones', () => {
    const maps = [map([token('rc_y', 'r.io', ['org/a'])]), map([token('rc_x', 'r.io', ['org/a'])], 'db')]
    expect(byImage(maps, 'r.io', 'org/a')).toBe('rc_x for the repository')
  })

  it('is that of the host where repositories have no owner in their names', () => {
    expect(byImage([map([token('rc_own', 'r.io:5000', ['api'])])], 'r.io:5000', 'worker')).toBe(
      'rc_own for the repository',
    )
  })

  it('opens the whole registry with ECR', () => {
    expect(byImage([map([ecr('rc_ecr', ['team/api'])])], ECR, 'other/web')).toBe('rc_ecr for the registry')
  })

  it('is for the repository alone where the host of ECR has a token too', () => {
    const maps = [map([ecr('rc_ecr', ['team/api']), token('rc_t', ECR, ['other/web'])])]
    expect(byImage(maps, ECR, 'team/api')).toBe('rc_ecr for the repository')
    expect(byImage(maps, ECR, 'other/web')).toBe('rc_t for the repository')
  })
})

describe('the parameter of a credential', () => {
  const named = (name: string, prefix = '/davit') => {
    const credential = {
      ...token('rc_a', 'ghcr.io', ['a/x']),
      parameter: { name, version: 1, region: 'eu-west-1' },
    }
    return foreignParameter({ organization: 'acme', credential: credential as BoxCredential }, prefix)
  }

  it('is the one that Davit has for it, below the prefix of the operator', () => {
    expect(named('/davit/acme/rc_a')).toBeUndefined()
    expect(named('/platform/davit/acme/rc_a', '/platform/davit')).toBeUndefined()
    expect(named('/davit/acme/rc_a', '/platform/davit')).toContain('is stored at /platform/davit/acme/rc_a')
  })

  it.each([
    '/davit/other/rc_a',
    '/davit/acme/rc_b',
    '/davit/notacme/rc_a',
    '/davit/acme/rc_a/x',
    '/platform/davit/acme/rc_a',
    'rc_a',
  ])('is not %s', (name) => {
    expect(named(name)).toContain(name)
  })
})
