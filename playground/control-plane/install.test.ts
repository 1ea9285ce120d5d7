import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildBinaries, GoFailed } from './install.ts'

let folder: string
let into: string

const silent = { show: () => {}, end: () => {} }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'control-plane-build-'))
  into = join(folder, 'into')
  mkdirSync(into)
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A `go` that records its arguments and follows the script; `$1` is list or build. */
function fakeGo(script: string): NodeJS.ProcessEnv {
  const go = join(folder, 'go')
  writeFileSync(go, `#!/bin/sh\necho "$CGO_ENABLED $PWD $*" >> ${folder}/calls\n${script}\n`)
  chmodSync(go, 0o755)
  return { PATH: `${folder}:/usr/bin:/bin` }
}

describe('buildBinaries', () => {
  it('builds the named programs of the pinned module, with the version in them', async () => {
    const env = fakeGo(`[ $1 = list ] || { touch ${into}/server ${into}/kube-apiserver; }`)
    expect(await buildBinaries(into, ['etcd', 'kube-apiserver'], silent, env)).toBe('v1.36.3')
    expect(readdirSync(into).sort()).toEqual(['etcd', 'kube-apiserver'])
    const build = readFileSync(join(folder, 'calls'), 'utf8').split('\n')[1]
    expect(build).toContain('tools/control-plane build -v -mod=readonly')
    expect(build).toMatch(/^0 /)
    expect(build).toContain('gitVersion=v1.36.3')
    expect(build).toContain('go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver')
    expect(build).not.toContain('cmd/kubectl')
  })

  it('shows how far the build is', async () => {
    const progressTexts: string[] = []
    const seen = Promise.withResolvers<void>()
    const progress = {
      show: (text: string) => {
        progressTexts.push(text)
        if (text.includes('2 of 4 packages')) seen.resolve()
      },
      end: () => {},
    }
    const env = fakeGo(
      `if [ $1 = list ]; then echo x x x x; exit; fi
       echo one >&2; echo two >&2
       while [ ! -e ${folder}/go-on ]; do sleep 0.05; done
       touch ${into}/server`,
    )
    const building = buildBinaries(into, ['etcd'], progress, env)
    await seen.promise
    writeFileSync(join(folder, 'go-on'), '')
    await building
    expect(progressTexts.some((text) => text.includes('2 of 4 packages, 50 %'))).toBe(true)
  })

  it('fails with the last words of go', async () => {
    const env = fakeGo('echo "go: requires go >= 1.26" >&2; exit 1')
    const building = buildBinaries(into, ['etcd'], silent, env)
    await expect(building).rejects.toThrow('go list failed (exit code 1):\ngo: requires go >= 1.26')
    expect(existsSync(join(into, 'etcd'))).toBe(false)
  })

  it('says so where there is no go', async () => {
    const building = buildBinaries(into, ['etcd'], silent, { PATH: into })
    await expect(building).rejects.toEqual(new GoFailed('go is not on the PATH'))
  })
})
