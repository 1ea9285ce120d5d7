/** A secret that is replaced after a bake that succeeded, on the real API server, with the lines of docs/reference/box-template.md. */
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { API, conditionsOf, DB, ROLE_OF_BOX, startBakingDavit, state } from '../support/baking-davit.ts'
import type { JobStandIn } from '../support/job-stand-in.ts'
import type { SecretsBed } from '../support/secrets-bed.ts'
import { ShellSession } from '../support/shell-session.ts'

const PAGE = readFileSync(new URL('../../docs/reference/box-template.md', import.meta.url), 'utf8')

let secrets: SecretsBed
let bed: JobStandIn
let shell: ShellSession

beforeAll(async () => {
  ;({ secrets, bed } = await startBakingDavit('box-rotation'))
  const cwd = dirname(inject('kubeconfig'))
  shell = await ShellSession.start({ cwd, path: dirname(inject('kubectl')) })
  const api = { ...API, image: 'ghcr.io/acme/api:1', registryCredentialId: 'rc_ghcr' }
  await bed.make('shop', { services: [api, DB], ...ROLE_OF_BOX })
  await bed.make('other', { services: [DB] })
  for (const name of ['shop', 'other']) {
    await bed.succeed(name)
    await bed.templateWhen(name, state('succeeded'))
  }
  await secrets.handOver('ghcr-handover', 'the-value-2')
})

afterAll(async () => {
  await shell?.[Symbol.asyncDispose]()
  await secrets?.stop()
})

const isBehind = (template: BoxTemplate) => conditionsOf(template).Current === 'False SecretReplaced'

describe('a box whose secret was replaced after its bake', () => {
  test('is ready, says how far it is behind, and is not baked again by itself', async () => {
    const { status } = await bed.templateWhen('shop', isBehind)
    expect(status?.conditions?.find(({ type }) => type === 'Current')?.message).toContain(
      "The box was baked with version 1 of rc_ghcr's secret, but the current version is 2.",
    )
    expect(status?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('True')
    expect(await bed.jobs('shop')).toHaveLength(1)
  })

  test('is found and baked again with the lines of the page', async () => {
    const { stdout, stderr, code } = await shell.paste(linesOfPage())
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
    expect(stdout).toMatch(/annotated/)
    await bed.succeed('shop')
    const baked = await bed.templateWhen(
      'shop',
      ({ status }) => status?.bake?.state === 'succeeded' && status.bake.number === 2,
    )
    expect(conditionsOf(baked)).toMatchObject({ Ready: 'True Baked', Current: 'True UpToDate' })
    expect(await bed.jobs('other')).toHaveLength(1)
  })
})

function linesOfPage(): string {
  const [, lines = ''] = /\n# Bake all outdated templates again\n(.*?)\n# Or all/s.exec(PAGE) ?? []
  expect(lines).toContain('annotate btp')
  const use = `export KUBECONFIG=${inject('kubeconfig')}`
  return `${use}\n${lines.replaceAll('-n acme', `-n ${bed.organization}`)}`
}
