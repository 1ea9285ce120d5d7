/** External programs that tests call, built from their source and cached. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { access, mkdir, readFile, rename } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** For the first build; packages that the control plane shares are not built again. */
export const BUILD_LIMIT_MS = 20 * 60_000

const SOURCES = ['main.go', 'go.mod', 'go.sum']
/** As for the control plane (playground/control-plane/install.ts), so that both share Go's build cache. */
const GO_ENV = { CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' }
const FLAGS = ['-mod=readonly', '-buildvcs=false', '-trimpath']

/**
 * @param name of its folder in the cache
 * @param home folder of main.go, go.mod and go.sum
 * @param announce called when it has to be built
 * @returns the path of the program
 */
export async function buildGoProgram(
  name: string,
  home: string,
  announce: () => void = () => {},
): Promise<string> {
  const hash = createHash('sha256')
  for (const source of SOURCES) hash.update(await readFile(join(home, source)))
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const folder = join(caches, 'davit', name)
  const program = join(folder, `${hash.digest('hex').slice(0, 16)}-${process.platform}-${process.arch}`)
  if (await isThere(program)) return program
  announce()
  await mkdir(folder, { recursive: true })
  const making = `${program}.${randomBytes(4).toString('hex')}`
  const options = { cwd: home, env: { ...process.env, ...GO_ENV }, timeout: BUILD_LIMIT_MS }
  // A test without its program fails, and reports the missing program.
  await promisify(execFile)('go', ['build', ...FLAGS, '-o', making, '.'], options).catch((error: Error) => {
    throw new Error(
      `${name} could not be built; it takes Go 1.26 or newer (https://go.dev/dl) and a Go module proxy: ${error.message}`,
    )
  })
  await rename(making, program)
  return program
}

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}
