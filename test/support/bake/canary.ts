/** Searches for a secret in any encoding in places where it must not be. */
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The leaks; an empty list is good. */
export function leaksIn(text: string | Buffer, secret: string, username: string): string[] {
  const content = Buffer.from(text)
  return Object.entries(formsOf(secret, username)).flatMap(([form, bytes]) =>
    content.includes(bytes) ? [form] : [],
  )
}

/** Searches all files of a folder, including those that are not readable by others. */
export function leaksInFolder(folder: string, secret: string, username: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((path) => lstatSync(path).isFile())
    .flatMap((path) => leaksIn(readFileSync(path), secret, username).map((form) => `${path}: ${form}`))
}

/** By name. */
export function formsOf(secret: string, username: string): Record<string, string> {
  const bytes = Buffer.from(secret, 'utf8')
  const base64 = (text: string) => Buffer.from(text, 'utf8').toString('base64')
  return {
    plain: secret,
    json: JSON.stringify(secret).slice(1, -1),
    url: encodeURIComponent(secret),
    form: new URLSearchParams({ '': secret }).toString().slice(1),
    base64: base64(secret).replace(/=+$/, ''),
    base64url: bytes.toString('base64url'),
    // Within a longer text, where it begins in the middle of a group.
    'base64 after one byte': base64(`x${secret}`).slice(4, -4),
    'base64 after two bytes': base64(`xx${secret}`).slice(4, -4),
    hex: bytes.toString('hex'),
    login: base64(`${username}:${secret}`).replace(/=+$/, ''),
  }
}
