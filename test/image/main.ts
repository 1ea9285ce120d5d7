/**
 * `npm run test:image`: makes the image from the Dockerfile, looks at what is in it, and starts both roles from it against a real API
 * server, as its user, with a root that cannot be written, and without a shell. Root on Debian with buildah and mmdebstrap. There
 * is no container engine in this: the roles run in the image's file system by chroot, in a mount namespace of their own.
 *
 *   npm run test:image -- [--oci FOLDER] [--twice]
 */
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startInstallation } from '../support/installation.ts'
import { buildImage, openImage } from './image.ts'
import { lookInto } from './look-into.ts'
import { startRole } from './start-role.ts'

/** Nothing happens then. */
const REST_MS = 20_000
const MIB = 2 ** 20

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { oci: { type: 'string' }, twice: { type: 'boolean', default: false } },
  })
  await using stack = new AsyncDisposableStack()
  // buildah makes a name of it, which has no capitals.
  const folder = join(tmpdir(), `davit-image-test-${randomBytes(6).toString('hex')}`)
  await mkdir(folder)
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const layout = values.oci ?? join(folder, 'oci')
  const begin = performance.now()
  if (values.oci === undefined) await buildImage(layout)
  const image = await openImage(layout, join(folder, 'store'))
  stack.defer(() => image.close())
  const problems = await lookInto(image)
  if (values.twice) {
    await buildImage(join(folder, 'again'))
    const again = await openImage(join(folder, 'again'), join(folder, 'store-again'))
    stack.defer(() => again.close())
    if (again.digest !== image.digest) problems.push(`made again it is ${again.digest}, not ${image.digest}`)
  }
  const made = Math.round((performance.now() - begin) / 1000)
  console.log(`${image.digest}, made and opened in ${made} s`)
  console.log(`size: ${image.packedMiB} MiB packed, ${image.unpackedMiB} MiB unpacked`)
  const davit = await startInstallation()
  stack.defer(() => davit.stop())
  for (const role of ['controller', 'api'] as const) {
    const running = await startRole(role, { image, davit })
    await new Promise((resolve) => setTimeout(resolve, REST_MS))
    const { rssBytes, code } = await running.stop()
    console.log(
      `${role}: ready after ${(running.readyMs / 1000).toFixed(1)} s, RSS at rest ${Math.round(rssBytes / MIB)} MiB`,
    )
    if (code !== 0) problems.push(`${role} ended with ${code}`)
  }
  for (const problem of problems) console.log(`WRONG: ${problem}`)
  return problems.length === 0 ? 0 : 1
}

process.exitCode = await main()
