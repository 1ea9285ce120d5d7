/** Leaks that are made on purpose, one of each form in each place: a scan that does not find them has proved nothing. */
import { appendFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts'
import { configMaps } from '../../src/apis/core-kinds.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { REGION } from '../support/aws/organization-account.ts'
import { OPERATOR_NAMESPACE } from '../support/installation.ts'
import { type Evidence, PLACES, type Place } from './evidence.ts'
import { hurtingSecrets } from './hurting-secrets.ts'
import { ENCODINGS } from './scan/forms.ts'
import { Scanner } from './scan/scanner.ts'
import type { Scene } from './scene.ts'

type Planted = { form: string; secret: string; text: string }

const EVENTS: ResourceType = { group: '', version: 'v1', plural: 'events', namespaced: true }
/** None of them is one of the run. */
const SEED_OFFSET = 1_000_003

/** In each of the places, by the ways that things get there. */
export async function plantLeaks(scene: Scene, seed: number): Promise<Planted[]> {
  const forms = Object.entries(ENCODINGS)
  // Such as are taken by the message of an Event and by a policy, which have limits.
  const fit = hurtingSecrets(new SeededRandom(seed + SEED_OFFSET), forms.length * 4)
    .filter((secret) => /[^A-Za-z0-9]{2}/.test(secret) && /^[ -~]{1,100}$/.test(secret))
    .slice(0, forms.length)
  const planted = forms.map(([form, encode], i) => {
    const secret = fit[i] ?? ''
    return { form, secret, text: encode(secret) }
  })
  const texts = planted.map(({ text }) => text)
  const all = texts.join('\n')
  const { davit, paths, roles } = scene
  await davit.api.create(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: OPERATOR_NAMESPACE, name: 'planted' },
    data: Object.fromEntries(planted.map(({ form, text }) => [form, text])),
  })
  for (const [i, message] of texts.entries()) await makeEvent(scene, i, message)
  for (const path of [paths.controllerLog, roles.serverLog, paths.servers]) await appendFile(path, `${all}\n`)
  await writeFile(join(paths.home, 'planted.txt'), all)
  await withServer(all, async (url) => {
    await roles.heard(url)
    await scene.rest.elsewhere(url)
  })
  await fetch(scene.aws.emulator.url, { method: 'POST', body: all })
  for (const text of texts) await tellTrail(scene, text)
  return planted
}

/** @returns place and form of what no scan has found */
export async function unseenPlants(
  planted: readonly Planted[],
  evidence: AsyncIterable<Evidence & { place: Place }>,
): Promise<string[]> {
  const scanner = new Scanner(planted.map(({ secret }) => secret))
  const seen = new Set<string>()
  for await (const { place, bytes } of evidence)
    for (const { secret } of scanner.scan(bytes)) seen.add(`${place}: ${planted[secret]?.form}`)
  return PLACES.flatMap((place) => planted.map(({ form }) => `${place}: ${form}`)).filter(
    (one) => !seen.has(one),
  )
}

async function makeEvent({ davit }: Scene, i: number, message: string): Promise<void> {
  const metadata = { namespace: OPERATOR_NAMESPACE, name: `planted-${i}` }
  await davit.api.create(EVENTS, {
    apiVersion: 'v1',
    kind: 'Event',
    metadata,
    involvedObject: { apiVersion: 'v1', kind: 'ConfigMap', namespace: OPERATOR_NAMESPACE, name: 'planted' },
    reason: 'Planted',
    type: 'Normal',
    message,
  })
}

/** As a parameter of a call that comes to nothing. */
async function tellTrail({ aws }: Scene, text: string): Promise<void> {
  const client = new STSClient({ region: REGION, endpoint: aws.emulator.url, maxAttempts: 1 })
  const RoleArn = 'arn:aws:iam::222222222222:role/absent'
  const Policy = JSON.stringify({ planted: text })
  const command = new AssumeRoleCommand({ RoleArn, RoleSessionName: 'planted', Policy })
  await client.send(command).catch(() => undefined)
  client.destroy()
}

async function withServer(body: string, act: (url: string) => Promise<void>): Promise<void> {
  const server = createServer((_, response) => void response.end(body))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await act(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}
