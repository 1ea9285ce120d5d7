import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  BOX_CREDENTIALS_FILE,
  type BoxCredentials,
  boxCredentials,
  MAX_BOX_CREDENTIALS_BYTES,
} from '../../apis/box-credentials.ts'

/**
 * The maps of credentials that bakes left on this machine: `credentials.json` in a folder, in the folders of it, or in
 * `<organization>/<template>` below it, where the place says whose it is. One that cannot be read does not keep the others
 * from being used.
 */

/** Boxes of one machine. */
const MAX_FOLDERS = 1000
const MAX_MAPS = 1000
const WRITABLE_BY_OTHERS = 0o022
const ROOT = 0

/** `place` is whose it is where its path says so. */
type MapFile = { path: string; place?: BoxCredentials['template'] }

/** What is wrong with a file, in words that follow its path. */
class MapProblem extends Error {
  override readonly name = 'MapProblem'
}

/** @param path a map, or a folder as above @param writers users who may say to whom secrets are sent */
export function createBoxMaps(path: string, writers = [ROOT, process.getuid?.()]): BoxMaps {
  return { read: () => readMaps(path, new Set(writers)) }
}

type Writers = ReadonlySet<number | undefined>

async function readMaps(path: string, writers: Writers): Promise<FoundMaps> {
  let files: readonly MapFile[]
  try {
    files = await filesAt(path, writers)
  } catch (error) {
    return { maps: [], problems: [`${path} ${wordsOf(error)}`] }
  }
  if (files.length > MAX_MAPS) return { maps: [], problems: [`${path} has more than ${MAX_MAPS} maps in it`] }
  if (files.length === 0) return { maps: [], problems: [`${path} has no ${BOX_CREDENTIALS_FILE} in it`] }
  const read: { file: MapFile; map: BoxCredentials }[] = []
  const problems: string[] = []
  for (const file of files) {
    try {
      const map = await readMap(file, writers)
      checkPlace(file, map)
      read.push({ file, map })
    } catch (error) {
      problems.push(`${file.path} ${wordsOf(error)}`)
    }
  }
  const claims = claimsOf(path, read)
  const bound = read.filter(({ file }) => !claims.has(file.path))
  return { maps: bound.map(({ map }) => map), problems: [...problems, ...claims.values()] }
}

function checkPlace({ place }: MapFile, { template }: BoxCredentials): void {
  if (place === undefined) return
  if (place.namespace !== template.namespace || place.name !== template.name)
    throw new MapProblem(
      `says that it is of ${template.namespace}/${template.name}, and its place is another`,
    )
}

/** A map in no place of an organization is one of whom it says; among several organizations nobody is believed that. */
function claimsOf(
  root: string,
  read: readonly { file: MapFile; map: BoxCredentials }[],
): ReadonlyMap<string, string> {
  if (new Set(read.map(({ map }) => map.template.namespace)).size < 2) return new Map()
  return new Map(
    read
      .filter(({ file }) => file.place === undefined)
      .map(({ file: { path }, map: { template } }) => [
        path,
        `${path} is of ${template.namespace} by its own word alone, and there are maps of several organizations here: put it at ${join(root, template.namespace, template.name, BOX_CREDENTIALS_FILE)}`,
      ]),
  )
}

/** A bake keeps its own things in a folder whose name begins with a dot. */
async function filesAt(path: string, writers: Writers): Promise<readonly MapFile[]> {
  const found = await stat(path)
  if (!found.isDirectory()) return [{ path }]
  checkWriters(found, writers)
  const names = await namesIn(path)
  if (names.length > MAX_FOLDERS) throw new MapProblem(`has more than ${MAX_FOLDERS} entries`)
  const isLayout = names.includes(BOX_CREDENTIALS_FILE)
  const below = await Promise.all(names.map((name) => filesBelow(join(path, name), isLayout)))
  return [...(isLayout ? [{ path: join(path, BOX_CREDENTIALS_FILE) }] : []), ...below.flat()]
}

/** @param only not as a folder of an organization */
async function filesBelow(folder: string, only: boolean): Promise<MapFile[]> {
  const own = join(folder, BOX_CREDENTIALS_FILE)
  if (await isFile(own)) return [{ path: own }]
  const names = only ? [] : await namesIn(folder).catch(() => [])
  if (names.length > MAX_FOLDERS) throw new MapProblem(`has more than ${MAX_FOLDERS} entries in ${folder}`)
  const files = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name, BOX_CREDENTIALS_FILE)
      return (await isFile(path)) ? [{ path, place: { namespace: basename(folder), name } }] : []
    }),
  )
  return files.flat()
}

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

async function readMap({ path, place }: MapFile, writers: Writers): Promise<BoxCredentials> {
  const folder = dirname(path)
  for (const above of place ? [dirname(folder), folder] : [folder])
    checkWriters(await stat(above), writers, 'is in a folder that ')
  // Without waiting, should it be a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  let text: string
  try {
    text = await readBounded(file, writers)
  } finally {
    await file.close()
  }
  const parsed = boxCredentials.safeParse(jsonOf(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const at = issue?.path.length ? ` at ${issue.path.join('.')}` : ''
  throw new MapProblem(`is not a map of credentials that this version of Davit knows${at}: ${issue?.message}`)
}

async function readBounded(file: FileHandle, writers: Writers): Promise<string> {
  const found = await file.stat()
  checkWriters(found, writers)
  const { size } = found
  if (size > MAX_BOX_CREDENTIALS_BYTES)
    throw new MapProblem(`has more than ${MAX_BOX_CREDENTIALS_BYTES} bytes`)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BOX_CREDENTIALS_BYTES), 0)
  return buffer.toString('utf8', 0, bytesRead)
}

/** Whoever may write a map, or put another one in its place, says to whom secrets are sent. */
function checkWriters({ mode, uid }: Stats, writers: Writers, what = ''): void {
  if ((mode & WRITABLE_BY_OTHERS) !== 0)
    throw new MapProblem(`${what}can be written by others than its owner`)
  if (!writers.has(uid))
    throw new MapProblem(`${what}belongs to the user ${uid}, who is neither root nor the one that reads it`)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new MapProblem('is not JSON')
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof MapProblem) return error.message
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return 'is not there'
  return code === 'EACCES' ? 'may not be read by this user' : `cannot be read: ${message}`
}

/** What bakes left for the box, or for the boxes of a node. */
export type FoundMaps = {
  maps: readonly BoxCredentials[]
  /** What could not be read, one sentence each, with its path. */
  problems: readonly string[]
}

export interface BoxMaps {
  /** All maps that there are now. Never throws: what is wrong is in `problems`, one of which says so where there is none at all. */
  read(): Promise<FoundMaps>
}

/** Of a thousand maps a thousand may be wrong, and each is read in one line of a log. */
const MOST = 5

/** What is wrong with maps, as a part of a sentence. */
export function summarizeProblems(problems: readonly string[]): string {
  const more = problems.length - MOST
  return [...problems.slice(0, MOST), ...(more > 0 ? [`and so it is with ${more} more`] : [])].join('; ')
}
