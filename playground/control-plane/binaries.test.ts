import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type BinarySource, ControlPlaneUnavailable, findControlPlaneBinaries } from './binaries.ts'
import { binaryCache } from './find-binaries.mjs'

let home: string
let env: NodeJS.ProcessEnv
let progressTexts: string[]
let progress: { show(text: string): void; end(): void }

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'control-plane-binaries-'))
  env = { XDG_CACHE_HOME: home, PATH: join(home, 'bin') }
  progressTexts = []
  progress = { show: (text) => progressTexts.push(text), end: () => {} }
})

afterEach(() => rmSync(home, { recursive: true, force: true }))

function program(path: string, script = ''): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
}

function cached(version: string, ...programs: string[]): string {
  const { root, platform } = binaryCache(env)
  const folder = join(root, `${version}-${platform}`)
  for (const name of programs) program(join(folder, name))
  return folder
}

function hostKubectl(minor: string): string {
  const path = join(home, 'bin', 'kubectl')
  program(path, `echo '{"clientVersion":{"minor":"${minor}"}}'`)
  return path
}

function source(name: string, make: BinarySource['make']): BinarySource {
  return { name, make }
}

const failing = source('download', () => Promise.reject(new Error('no route to host')))

/** Makes the programs that are asked for, and records the requests. */
function making(): BinarySource & { asked: (readonly string[])[] } {
  const asked: (readonly string[])[] = []
  const make: BinarySource['make'] = async (into, programs) => {
    asked.push(programs)
    for (const name of programs) program(join(into, name))
    return 'v1.36.3'
  }
  return { name: 'build', make, asked }
}

const find = (sources: BinarySource[] = []) => findControlPlaneBinaries({ env, progress, sources })

describe('findControlPlaneBinaries', () => {
  it('takes the folder that KUBEBUILDER_ASSETS names before anything else', async () => {
    cached('v1.36.3', 'etcd', 'kube-apiserver', 'kubectl')
    const folder = join(home, 'assets')
    for (const name of ['etcd', 'kube-apiserver', 'kubectl']) program(join(folder, name))
    env.KUBEBUILDER_ASSETS = folder
    expect(await find()).toEqual({
      etcd: join(folder, 'etcd'),
      kubeApiserver: join(folder, 'kube-apiserver'),
      kubectl: join(folder, 'kubectl'),
    })
  })

  it('says so where that folder is not complete, rather than taking another', async () => {
    cached('v1.36.3', 'etcd', 'kube-apiserver', 'kubectl')
    env.KUBEBUILDER_ASSETS = join(home, 'nothing')
    await expect(find([making()])).rejects.toThrow(/KUBEBUILDER_ASSETS is .*nothing/)
  })

  it('takes the cache without asking a source', async () => {
    const folder = cached('v1.36.3', 'etcd', 'kube-apiserver', 'kubectl')
    expect(await find([failing])).toMatchObject({ etcd: join(folder, 'etcd') })
  })

  it('prefers the version that is built here to a newer patch, and the newest patch to others', async () => {
    cached('v1.36.2', 'etcd', 'kube-apiserver', 'kubectl')
    const newest = cached('v1.36.10', 'etcd', 'kube-apiserver', 'kubectl')
    cached('v1.35.9', 'etcd', 'kube-apiserver', 'kubectl')
    expect((await find()).etcd).toBe(join(newest, 'etcd'))
    const pinned = cached('v1.36.3', 'etcd', 'kube-apiserver', 'kubectl')
    expect((await find()).etcd).toBe(join(pinned, 'etcd'))
  })

  it('takes the kubectl of the host where it is new enough', async () => {
    cached('v1.36.3', 'etcd', 'kube-apiserver')
    const kubectl = hostKubectl('32+')
    expect((await find([failing])).kubectl).toBe(kubectl)
  })

  it('makes kubectl as well where the one of the host is too old, and keeps the rest', async () => {
    const folder = cached('v1.36.3', 'etcd', 'kube-apiserver')
    hostKubectl('31')
    const build = making()
    expect((await find([build])).kubectl).toBe(join(folder, 'kubectl'))
    expect(build.asked).toEqual([['etcd', 'kube-apiserver', 'kubectl']])
  })

  it('goes on to the next source where one fails', async () => {
    hostKubectl('36')
    const build = making()
    const found = await find([failing, build])
    expect(found.etcd).toBe(join(cached('v1.36.3'), 'etcd'))
    expect(build.asked).toEqual([['etcd', 'kube-apiserver']])
  })

  it('names every failure and the ways out where all fail, and leaves nothing that looks like binaries', async () => {
    const half = source('build', (into) => {
      program(join(into, 'etcd'))
      return Promise.reject(new Error('disk full'))
    })
    const failure = await find([failing, half]).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ControlPlaneUnavailable)
    const message = (failure as Error).message
    for (const part of [
      'download failed: no route to host',
      'build failed: disk full',
      'Set KUBEBUILDER_ASSETS to',
    ]) {
      expect(message).toContain(part)
    }
    expect(readdirSync(binaryCache(env).root)).toEqual([])
  })

  it('does not take what an interrupted build left, and removes it', async () => {
    hostKubectl('36')
    const left = join(binaryCache(env).root, '.making-dead')
    program(join(left, 'etcd'))
    program(join(left, 'kube-apiserver'))
    const build = making()
    await find([build])
    expect(build.asked).toHaveLength(1)
    expect(existsSync(left)).toBe(false)
  })

  it('makes them once for all that ask at the same time', async () => {
    hostKubectl('36')
    const build = making()
    const found = await Promise.all([find([build]), find([build]), find([build])])
    expect(build.asked).toHaveLength(1)
    expect(new Set(found.map(({ etcd }) => etcd)).size).toBe(1)
    expect(progressTexts.join()).toContain('waiting for process')
  })
})
