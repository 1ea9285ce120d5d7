/**
 * `kill -9` of the controller at each of its writes in a bake, before the write has its effect and after it, on the real API server:
 * the next process goes on, and there is one bake with one Job.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waiting } from '../../playground/bakes/run-statuses.ts'
import { registryCredential, registryCredentials } from '../../src/apis/registry-credential.ts'
import { API, ECR, ROLE_OF_BOX, state } from '../support/baking-davit.ts'
import type { ApiCall } from '../support/faulty-api.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'
import { type MortalDavit, startMortalDavit } from '../support/mortal-davit.ts'
import { until } from '../support/until.ts'

let mortal: MortalDavit
let bed: JobStandIn

beforeAll(async () => {
  mortal = await startMortalDavit('box-crashes', { env: BAKE_ENV })
  const { api, organization } = mortal.davit
  bed = new JobStandIn(api, organization)
  await bed.account('box')
  await api.create(registryCredentials, {
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'RegistryCredential',
    metadata: { namespace: organization, name: 'ecr' },
    spec: { type: 'ecr', label: 'ECR', registry: ECR },
  })
})

afterAll(async () => {
  await mortal?.stop()
})

type StatusPatch = { status?: { bake?: { state?: string }; verified?: object } }
const statusOf = ({ body }: ApiCall) => (body as StatusPatch | undefined)?.status

/** The write that says that the bake is in this state. */
const saying = (wanted: string) => (call: ApiCall) =>
  call.verb === 'patch' && call.plural === 'boxtemplates' && statusOf(call)?.bake?.state === wanted

const WRITES: [write: string, is: (call: ApiCall) => boolean][] = [
  ['the beginning of the bake', saying('pending')],
  ['its Job', ({ verb, plural }) => verb === 'create' && plural === 'jobs'],
  ['that it runs', saying('running')],
  [
    'what its credential is told',
    (call) => call.plural === 'registrycredentials' && statusOf(call)?.verified !== undefined,
  ],
  ['its end', saying('succeeded')],
]

/** Continues as if no process had died. */
async function bake(name: string): Promise<void> {
  const job = await bed.job(name)
  const pod = await bed.run(job)
  await bed.templateWhen(name, state('running'))
  await bed.succeed(name, pod)
  await bed.templateWhen(name, state('succeeded'))
}

describe.each(['dies before', 'dies after'] as const)('a controller that %s', (fault) => {
  test.for(WRITES)('%s is followed by one that goes on', async ([write, is]) => {
    const name = `${fault}-${write}`.toLowerCase().replaceAll(' ', '-')
    const lives = mortal.lives
    mortal.api.fail(is, fault)
    await bed.make(name, { services: [API], ...ROLE_OF_BOX })
    await Promise.all([bake(name), mortal.reborn()])
    expect(mortal.lives).toBe(lives + 1)
    const { status } = await bed.templateWhen(name, state('succeeded'))
    expect(status?.bake).toMatchObject({ number: 1, attempts: 1 })
    expect(await bed.jobs(name)).toHaveLength(1)
    await until(
      async () => (await verifiedBy()) === name || undefined,
      () => 'the credential was not told',
    )
  })

  test('the removal of a Job that comes to nothing is followed by one that removes it', async () => {
    const name = `${fault}-the-removal`.replaceAll(' ', '-')
    mortal.api.fail(({ verb, plural }) => verb === 'delete' && plural === 'jobs', fault)
    await bed.make(name, { services: [API], ...ROLE_OF_BOX })
    await bed.pod(await bed.job(name), waiting('InvalidImageName', 'no such name'))
    await mortal.reborn()
    await bed.withoutJobs(name)
    const { status } = await bed.templateWhen(name, state('failed'))
    expect(status?.bake).toMatchObject({ number: 1, failure: { code: 'bake_image_missing' } })
    await bed.collect()
  })
})

async function verifiedBy(): Promise<string | undefined> {
  const ref = { namespace: mortal.davit.organization, name: 'ecr' }
  return registryCredential.parse(await mortal.davit.api.get(registryCredentials, ref)).status?.verified
    ?.template
}
