import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { RegistryLogin } from '../registry/outcome.ts'

/** What the tool opens: its own descriptor 3. */
export const AUTH_FILE_PATH = '/proc/self/fd/3'

/**
 * A file with one login and no name: it loses its name before the login is written into it, and ends with the last process that has
 * it open. So there is no moment at which a killed bake leaves one.
 * @param folder in memory @param login absent: a file that logs nobody in
 */
export async function openAuthFile(
  folder: string,
  registry: string,
  login: RegistryLogin | undefined,
): Promise<FileHandle> {
  const path = join(folder, 'auth')
  const file = await open(path, 'wx+', 0o600)
  try {
    await unlink(path)
    await file.write(JSON.stringify({ auths: login ? { [registry]: { auth: authOf(login) } } : {} }), 0)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

function authOf({ username, password }: RegistryLogin): string {
  return Buffer.from(`${username}:${password.reveal()}`, 'utf8').toString('base64')
}
