import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What the name of its folder begins with. */
export const TOOL_HOME_PREFIX = 'tool-'

/** What the tool finds instead of the settings and logins of the machine. */
export type ToolHome = {
  path: string
  /** Folder with authorities; absent where there are none of our own. */
  certificates: string | undefined
  environment: Record<string, string>
  remove(): Promise<void>
}

/** @param memory a folder in memory, where it goes */
export async function makeToolHome(options: {
  memory: string
  extraCa?: string | undefined
}): Promise<ToolHome> {
  const path = await mkdtemp(join(options.memory, TOOL_HOME_PREFIX))
  const remove = () => rm(path, { recursive: true, force: true })
  try {
    const settings = join(path, '.config', 'containers')
    const registries = join(settings, 'registries.conf')
    await mkdir(join(settings, 'registries.conf.d'), { recursive: true })
    // No mirror and no registry without TLS: what was asked before is what is pulled from.
    await writeFile(registries, '')
    const certificates = options.extraCa === undefined ? undefined : join(path, 'certificates')
    if (certificates !== undefined) {
      await mkdir(certificates)
      await writeFile(join(certificates, 'extra.crt'), options.extraCa ?? '')
    }
    const environment = {
      HOME: path,
      XDG_RUNTIME_DIR: path,
      XDG_CONFIG_HOME: join(path, '.config'),
      DOCKER_CONFIG: path,
      CONTAINERS_REGISTRIES_CONF: registries,
      LC_ALL: 'C.UTF-8',
    }
    return { path, certificates, environment, remove }
  } catch (error) {
    await remove()
    throw error
  }
}
