/**
 * Reads the credentials files that bakes left on this machine: `credentials.json` in a folder, in its subfolders, or in
 * `<organization>/<template>` below it, where the path says which template the file belongs to. Unreadable files are reported as
 * problems and do not affect the others.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  BOX_CREDENTIALS_FILE,
  type BoxCredentials,
  boxCredentials,
  MAX_BOX_CREDENTIALS_BYTES,
} from '../../apis/box-credentials.ts'
import { tryParseJson } from '../../lib/json.ts'

const MAX_FOLDERS = 1000
const MAX_MAPS = 1000
const WRITABLE_BY_OTHERS = 0o022
const ROOT = 0

/** `owner` is the template in the path, if there is one. */
type MapFile = { path: string; owner?: BoxCredentials['template'] }

/** The message follows the path of the file. */
class MapProblem extends Error {
  override readonly name = 'MapProblem'
}

/** @param path a file, or a folder as above @param writers users whose files are trusted */
export function createBoxMaps(path: string, writers = [ROOT, process.getuid?.()]): BoxMaps {
  return { read: () => readMaps(path, new Set(writers)) }
}

type Writers = ReadonlySet<number | undefined>

async function readMaps(path: string, writers: Writers): Promise<FoundMaps> {
  let files: readonly MapFile[]
  try {
    files = await filesAt(path, writers)
  } catch (error) {
    return { maps: [], problems: [`${path} ${problemText(error)}`] }
  }
  if (files.length > MAX_MAPS)
    return { maps: [], problems: [`${path} contains more than ${MAX_MAPS} credentials files`] }
  if (files.length === 0)
    return { maps: [], problems: [`${path} does not contain a ${BOX_CREDENTIALS_FILE}`] }
  const read: { file: MapFile; map: BoxCredentials }[] = []
  const problems: string[] = []
  for (const file of files) {
    try {
      read.push({ file, map: await readMap(file, writers) })
    } catch (error) {
      problems.push(`${file.path} ${problemText(error)}`)
    }
  }
  const rejected = unprovenOwners(path, read)
  const maps = read.filter(({ file }) => !rejected.has(file.path)).map(({ map }) => map)
  return { maps, problems: [...problems, ...rejected.values()] }
}

/** Without an organization in the path only the file itself says whose it is. That is trusted among one organization, not among several. */
function unprovenOwners(
  root: string,
  read: readonly { file: MapFile; map: BoxCredentials }[],
): ReadonlyMap<string, string> {
  if (new Set(read.map(({ map }) => map.template.namespace)).size < 2) return new Map()
  return new Map(
    read
      .filter(({ file }) => file.owner === undefined)
      .map(({ file: { path }, map: { template } }) => [
        path,
        `${path} claims to belong to ${template.namespace}, but its path does not confirm that, and ${root} contains credentials files of several organizations; move it to ${join(root, template.namespace, template.name, BOX_CREDENTIALS_FILE)}`,
      ]),
  )
}

async function filesAt(path: string, writers: Writers): Promise<readonly MapFile[]> {
  const found = await stat(path)
  if (!found.isDirectory()) return [{ path }]
  checkWriters(found, writers)
  const names = await namesIn(path)
  if (names.length > MAX_FOLDERS) throw new MapProblem(`contains more than ${MAX_FOLDERS} entries`)
  const isLayout = names.includes(BOX_CREDENTIALS_FILE)
  const below = await Promise.all(names.map((name) => filesBelow(join(path, name), isLayout)))
  return [...(isLayout ? [{ path: join(path, BOX_CREDENTIALS_FILE) }] : []), ...below.flat()]
}

/** @param isLayout the folder cannot be one of an organization */
async function filesBelow(folder: string, isLayout: boolean): Promise<MapFile[]> {
  const own = join(folder, BOX_CREDENTIALS_FILE)
  if (await isFile(own)) return [{ path: own }]
  const names = isLayout ? [] : await namesIn(folder).catch(() => [])
  if (names.length > MAX_FOLDERS)
    throw new MapProblem(`contains more than ${MAX_FOLDERS} entries in ${folder}`)
  const files = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name, BOX_CREDENTIALS_FILE)
      return (await isFile(path)) ? [{ path, owner: { namespace: basename(folder), name } }] : []
    }),
  )
  return files.flat()
}

/** Names that begin with a dot are folders of bakes in progress. */
async function namesIn(path: string): Promise<string[]> {
  return (await readdir(path)).filter((name) => !name.startsWith('.')).sort()
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

async function readMap({ path, owner }: MapFile, writers: Writers): Promise<BoxCredentials> {
  const folder = dirname(path)
  for (const above of owner ? [dirname(folder), folder] : [folder])
    checkWriters(await stat(above), writers, 'is in a folder that ')
  // Non-blocking, in case it is a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  let text: string
  try {
    text = await readBounded(file, writers)
  } finally {
    await file.close()
  }
  const json = tryParseJson(text)
  if (json === undefined) throw new MapProblem('is not valid JSON')
  const { data: map, error } = boxCredentials.safeParse(json)
  if (!map) {
    const [issue] = error.issues
    const at = issue?.path.length ? ` at ${issue.path.join('.')}` : ''
    throw new MapProblem(
      `is not a credentials file that this version of Davit can read${at}: ${issue?.message}`,
    )
  }
  const { namespace, name } = map.template
  if (owner && (owner.namespace !== namespace || owner.name !== name))
    throw new MapProblem(`is for the template ${namespace}/${name}, which does not match its path`)
  return map
}

async function readBounded(file: FileHandle, writers: Writers): Promise<string> {
  const stats = await file.stat()
  checkWriters(stats, writers)
  if (stats.size > MAX_BOX_CREDENTIALS_BYTES)
    throw new MapProblem(`is larger than ${MAX_BOX_CREDENTIALS_BYTES} bytes`)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BOX_CREDENTIALS_BYTES), 0)
  return buffer.toString('utf8', 0, bytesRead)
}

/** A user who can write or replace a file decides where secrets are sent. */
function checkWriters({ mode, uid }: Stats, writers: Writers, prefix = ''): void {
  if ((mode & WRITABLE_BY_OTHERS) !== 0)
    throw new MapProblem(`${prefix}is writable by users other than its owner`)
  if (!writers.has(uid))
    throw new MapProblem(`${prefix}is owned by user ${uid}, which is neither root nor the current user`)
}

function problemText(error: unknown): string {
  if (error instanceof MapProblem) return error.message
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return 'does not exist'
  return code === 'EACCES' ? 'is not readable by this user' : `cannot be read: ${message}`
}

export type FoundMaps = {
  maps: readonly BoxCredentials[]
  /** One sentence per unreadable file, with its path. */
  problems: readonly string[]
}

export interface BoxMaps {
  /** Never throws. If there are no files, a problem says so. */
  read(): Promise<FoundMaps>
}

const MAX_LISTED_PROBLEMS = 5

export function summarizeProblems(problems: readonly string[]): string {
  const more = problems.length - MAX_LISTED_PROBLEMS
  return [...problems.slice(0, MAX_LISTED_PROBLEMS), ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}
