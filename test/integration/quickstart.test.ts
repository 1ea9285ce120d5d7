/** The example of the quickstart: its objects fit together, and `davit receiver` verifies what Davit delivers. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { kubectl } from '../support/control-plane.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { MAIN } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const FOLDER = new URL('../../examples/quickstart/', import.meta.url)

async function objectsIn(file: string) {
  return parseAllDocuments(await readFile(new URL(file, FOLDER), 'utf8')).map((one) => one.toJS())
}

describe('the objects of the quickstart', () => {
  test('fit together: the receiver has the secret of the endpoint, and Davit may deliver to it', async () => {
    const [deployment, service] = await objectsIn('receiver.yaml')
    const [endpoint] = await objectsIn('endpoint.yaml')
    const [values] = await objectsIn('values.yaml')
    const [{ namespace }] = await objectsIn('kustomization.yaml')
    const [event] = await objectsIn('event.yaml')
    const { containers, volumes } = deployment.spec.template.spec
    expect(containers[0].args).toEqual(['receiver'])
    expect(volumes).toEqual([
      { name: containers[0].volumeMounts[0].name, secret: { secretName: endpoint.spec.signingSecret.name } },
    ])
    const { name } = service.metadata
    const [{ port }] = service.spec.ports
    expect(endpoint.spec.url).toBe(`http://${name}.${namespace}.svc.cluster.local:${port}/hooks`)
    expect(values.clusterReceivers).toEqual([{ namespace, service: name }])
    expect(event.metadata.namespace).toBe(namespace)
  })
})

describe('davit receiver', () => {
  let davit: TestDavit
  let folder: string
  let receiver: { port: string; lines: string[]; stop: () => void }

  beforeAll(async () => {
    davit = await startDavit('quickstart')
    folder = await mkdtemp(join(tmpdir(), 'davit-quickstart-'))
    receiver = await startReceiverProcess(folder)
  })

  afterAll(async () => {
    receiver?.stop()
    await davit?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test('verifies the event of the quickstart with the Secret that Davit creates', async () => {
    const [endpoint] = await objectsIn('endpoint.yaml')
    endpoint.spec.url = `http://127.0.0.1:${receiver.port}/hooks`
    await apply(endpoint)
    await mount(endpoint.spec.signingSecret.name)
    const [event] = await objectsIn('event.yaml')
    delete event.metadata.namespace
    const file = join(folder, 'event.json')
    await writeFile(file, JSON.stringify(event))
    await kubectl(['-n', davit.organization, 'create', '-f', file])
    const line = await until(
      async () => receiver.lines.find((printed) => printed.startsWith('verified')),
      () => `printed: ${receiver.lines.join('\n')}`,
    )
    expect(line).toMatch(/^verified environment\.started msg_[0-9a-z]{26} \d+ bytes$/)
    const { status } = await davit.endpointWhen('first', (one) => one.status?.lastSuccessTime !== undefined)
    expect(status?.state).toBe('enabled')
  })

  test('does not take what Davit did not sign', async () => {
    const answer = await fetch(`http://127.0.0.1:${receiver.port}/hooks`, { method: 'POST', body: '{}' })
    expect(answer.status).toBe(401)
    await until(
      async () => receiver.lines.find((line) => line.startsWith('not verified without webhook-id: ')),
      () => `printed: ${receiver.lines.join('\n')}`,
    )
  })

  async function apply(object: { metadata: { name: string } }): Promise<void> {
    const file = join(folder, `${object.metadata.name}.json`)
    await writeFile(file, JSON.stringify({ ...object, apiVersion: API_VERSION }))
    await kubectl(['-n', davit.organization, 'apply', '-f', file])
  }

  /** As a node mounts the Secret into the pod. */
  async function mount(name: string): Promise<void> {
    const { data } = await until(
      async () =>
        await davit.api.get(secrets, { namespace: davit.organization, name }).catch(() => undefined),
      () => `there is no Secret ${name}`,
    )
    for (const [key, value] of Object.entries(data as Record<string, string>))
      await writeFile(join(folder, key), Buffer.from(value, 'base64'))
  }
})

/** The command, as the container of the quickstart starts it. */
async function startReceiverProcess(folder: string) {
  const env = {
    PATH: process.env.PATH,
    DAVIT_RECEIVER_ADDRESS: '127.0.0.1:0',
    DAVIT_RECEIVER_SECRETS: folder,
  }
  const child = spawn(process.execPath, [MAIN, 'receiver'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  createInterface(child.stdout).on('line', (line) => lines.push(line))
  const port = await until(
    async () => /^listening on port (\d+)$/.exec(lines[0] ?? '')?.[1],
    () => 'davit receiver does not listen',
  )
  return { port, lines, stop: () => void child.kill() }
}
