/** Where a run installs Davit, and from which image: given by arguments or by the environment, and never guessed. */
import { parseArgs } from 'node:util'

export type E2eOptions = {
  /** Absent: a new cluster of kind. */
  kubeconfig: string | undefined
  /** With a tag, as nodes pull it. */
  image: { repository: string; tag: string }
  /** An OCI layout with the image; absent: it is made where it is needed. */
  oci: string | undefined
  /** A command of a shell that brings the image to the registry; absent: it is there. */
  push: string | undefined
  /** Of this machine, where pods reach it. Absent: that of kind's network. */
  address: string | undefined
  /** While pods die and are replaced. */
  events: number
  /** After that, all of them to the pods that stay until the end. */
  steadyEvents: number
  eventsPerSecond: number
  parts: readonly Part[]
}

/** `release`: what an installation does, and what it leaves. `page`: docs/get-started/first-webhook.md, as it is written. */
export type Part = 'release' | 'page'

export const USAGE = `usage: npm run test:e2e -- [PART...] [OPTION...]
  PART                release, page; without one both
  KUBECONFIG=FILE     the cluster; without it a new one of kind, with the image built by Docker
  --image REF         E2E_IMAGE, the image as nodes pull it; its tag is the version of the chart
  --push COMMAND      E2E_PUSH, brings the image to its registry: a command of sh that is told $ARCHIVE (an archive as of
                      docker save), $IMAGE (all of REF) and $NAME (REF without its registry)
  --oci FOLDER        E2E_OCI, the image to push as an OCI layout; without it tools/image.mjs makes it
  --address IP        E2E_ADDRESS, of this machine, where pods reach it: a double of AWS and a registry are there
  --events N          E2E_EVENTS, how many events are published while pods die and are replaced, nearly all to two endpoints (5400)
  --steady N          E2E_STEADY, how many more to the pods of the upgrade, whose memory is told after them (5400)
  --rate N            E2E_RATE, how many in a second (25)`

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

const PARTS: readonly Part[] = ['release', 'page']
/** What the pages say, so that the pages can be run as they are. */
export const IMAGE_OF_PAGES = 'registry.example.com/davit'
const MAX_EVENTS = 100_000
const MAX_RATE = 200

type Found = { hasKind: boolean; version: string }

/** @param found whether kind and Docker are there, and the version of the chart @throws UsageError */
export function parseE2eOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  { hasKind, version }: Found,
): E2eOptions {
  const { values, positionals } = parsed(args)
  const given = (name: keyof typeof values) =>
    values[name] || environment[`E2E_${name.toUpperCase()}`] || undefined
  const kubeconfig = environment.KUBECONFIG || undefined
  if (kubeconfig === undefined && !hasKind)
    throw new UsageError('KUBECONFIG is missing, and kind and docker are not there for a cluster of its own')
  const image = imageOf(
    given('image') ?? (kubeconfig === undefined ? `${IMAGE_OF_PAGES}:${version}` : undefined),
    version,
  )
  const parts = partsOf(positionals)
  const address = given('address')
  if (kubeconfig !== undefined && address === undefined && parts.includes('release'))
    throw new UsageError(
      '--address is missing: a bake needs a registry and AWS, which are doubles on this machine',
    )
  return {
    kubeconfig,
    image,
    oci: given('oci'),
    push: given('push'),
    address,
    events: numberOf('events', given('events') ?? '5400', MAX_EVENTS),
    steadyEvents: numberOf('steady', given('steady') ?? '5400', MAX_EVENTS),
    eventsPerSecond: numberOf('rate', given('rate') ?? '25', MAX_RATE),
    parts,
  }
}

function partsOf(positionals: readonly string[]): readonly Part[] {
  const parts = [...new Set(positionals)].map((name) => {
    const part = PARTS.find((one) => one === name)
    if (part === undefined) throw new UsageError(`there is no part ${name}`)
    return part
  })
  return parts.length === 0 ? PARTS : parts
}

function imageOf(reference: string | undefined, version: string): E2eOptions['image'] {
  if (reference === undefined) throw new UsageError('--image is missing: where nodes pull Davit from')
  const [, repository, tag] = /^(.+\/.+):([\w.-]+)$/.exec(reference) ?? []
  if (repository === undefined || tag === undefined)
    throw new UsageError(`--image needs a registry and a tag, as in ${IMAGE_OF_PAGES}:${version}`)
  if (tag !== version)
    throw new UsageError(
      `--image needs the tag ${version}, the version of the chart, which the pages leave out`,
    )
  return { repository, tag }
}

function numberOf(name: string, text: string, most: number): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0 && number <= most) return number
  throw new UsageError(`--${name} is a whole number from 1 to ${most}`)
}

function parsed(args: readonly string[]) {
  const text = { type: 'string' } as const
  const options = {
    image: text,
    push: text,
    oci: text,
    address: text,
    events: text,
    steady: text,
    rate: text,
  }
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}
