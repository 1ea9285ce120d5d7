/**
 * The maps of credentials that bakes left on this machine: `credentials.json` in a folder, and in the folders of it. One that
 * cannot be read does not keep the others from being used.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  BOX_CREDENTIALS_FILE,
  type BoxCredentials,
  boxCredentials,
  MAX_BOX_CREDENTIALS_BYTES,
} from '../../api/box-credentials.ts'
import type { BoxMaps, FoundMaps } from '../../ports/box-maps.ts'

/** Boxes of one machine. */
const MAX_FOLDERS = 1000
const WRITABLE_BY_ALL = 0o002

/** What is wrong with a file, in words that follow its path. */
class MapProblem extends Error {
  override readonly name = 'MapProblem'
}

/** @param path a map, or a folder as above */
export function createBoxMaps(path: string): BoxMaps {
  return { read: () => readMaps(path) }
}

async function readMaps(path: string): Promise<FoundMaps> {
  let files: string[]
  try {
    files = await filesAt(path)
  } catch (error) {
    return { maps: [], problems: [`${path} ${wordsOf(error)}`] }
  }
  if (files.length === 0) return { maps: [], problems: [`${path} has no ${BOX_CREDENTIALS_FILE} in it`] }
  const maps: BoxCredentials[] = []
  const problems: string[] = []
  for (const file of files) {
    try {
      maps.push(await readMap(file))
    } catch (error) {
      problems.push(`${file} ${wordsOf(error)}`)
    }
  }
  return { maps, problems }
}

/** A bake keeps its own things in a folder whose name begins with a dot. */
async function filesAt(path: string): Promise<string[]> {
  const found = await stat(path)
  if (!found.isDirectory()) return [path]
  const names = (await readdir(path)).filter((name) => !name.startsWith('.')).sort()
  if (names.length > MAX_FOLDERS) throw new MapProblem(`has more than ${MAX_FOLDERS} entries`)
  const own = names.includes(BOX_CREDENTIALS_FILE) ? [join(path, BOX_CREDENTIALS_FILE)] : []
  const below = await Promise.all(
    names.map(async (name) => {
      const file = join(path, name, BOX_CREDENTIALS_FILE)
      return (await isFile(file)) ? [file] : []
    }),
  )
  return [...own, ...below.flat()]
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

async function readMap(path: string): Promise<BoxCredentials> {
  // Without waiting, should it be a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  let text: string
  try {
    text = await readBounded(file)
  } finally {
    await file.close()
  }
  const parsed = boxCredentials.safeParse(jsonOf(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const place = issue?.path.length ? ` at ${issue.path.join('.')}` : ''
  throw new MapProblem(
    `is not a map of credentials that this version of Davit knows${place}: ${issue?.message}`,
  )
}

async function readBounded(file: FileHandle): Promise<string> {
  const { mode, size } = await file.stat()
  // Whoever may write it says to whom secrets are sent.
  if ((mode & WRITABLE_BY_ALL) !== 0) throw new MapProblem('can be written by everybody on this machine')
  if (size > MAX_BOX_CREDENTIALS_BYTES)
    throw new MapProblem(`has more than ${MAX_BOX_CREDENTIALS_BYTES} bytes`)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BOX_CREDENTIALS_BYTES), 0)
  return buffer.toString('utf8', 0, bytesRead)
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
