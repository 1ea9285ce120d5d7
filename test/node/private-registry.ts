/** A private registry on this machine that the node reaches, with images that run. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeImage } from '../../playground/bakes/images.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'
import { imageArchitecture, tinyProgram } from './tiny-program.ts'

const PORT = 15_443

/** Who may pull what. */
export const ONE = { user: 'one-bot', secret: 'canary-of-one-51d0', repository: 'one/api' }
export const TWO = { user: 'two-bot', secret: 'canary-of-two-6ae2', repository: 'two/web' }
/** Anyone may pull it. */
export const OPEN = 'open/page'

/** Two credentials for one host, each for one repository; others may be pulled by anyone, or not at all. */
export function startPrivateRegistry(address: string): Promise<TestRegistry> {
  const account = ({ secret, repository }: typeof ONE) => ({ password: secret, pulls: [repository] })
  return startTestRegistry({
    auth: 'bearer',
    accounts: { [ONE.user]: account(ONE), [TWO.user]: account(TWO) },
    open: [OPEN],
    names: [address],
    listen: { host: address, port: PORT, name: `${address}:${PORT}` },
  })
}

/** What an administrator of a node does for a registry with an authority of its own. @returns takes it back */
export async function trustRegistry(hosts: string, folder: string, { host, ca }: TestRegistry) {
  const [mine, authority] = [join(hosts, host), join(folder, 'registry-ca.pem')]
  await writeFile(authority, ca)
  await mkdir(mine)
  const server = `https://${host}`
  await writeFile(
    join(mine, 'hosts.toml'),
    `server = "${server}"\n[host."${server}"]\n  capabilities = ["pull", "resolve"]\n  ca = "${authority}"\n`,
  )
  return () => rm(mine, { recursive: true })
}

export async function pushImages(registry: TestRegistry): Promise<Record<string, string>> {
  const architecture = imageArchitecture()
  const program = tinyProgram(architecture)
  const digests: Record<string, string> = {}
  for (const repository of [ONE.repository, TWO.repository, OPEN, 'three/api']) {
    // Others each time: the node must have none of them.
    const layers = [`${repository} of ${new Date().toISOString()}`]
    digests[repository] = await registry.push(repository, '1', makeImage({ layers, program, architecture }))
  }
  return digests
}
