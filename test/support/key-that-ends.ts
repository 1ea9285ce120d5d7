/** Keys that end when a test wants: kubectl makes none that ends sooner than in ten minutes. */

import { createSign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'

const HOUR_SECONDS = 3600

/**
 * The same key with another end; all else stays as it is, and the API server's own key signs.
 * @param key a good one
 * @param seconds from its making, from when on it is no key; negative: it was one, and has expired
 */
export async function keyThatEnds(
  { kubeconfigPath }: ControlPlane,
  key: string,
  seconds: number,
): Promise<string> {
  const privateKey = await readFile(join(dirname(kubeconfigPath), 'certs', 'service-accounts.key'), 'utf8')
  const [header = '', payload = ''] = key.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { iat: number }
  const exp = claims.iat + seconds
  const iat = Math.min(claims.iat, exp - HOUR_SECONDS)
  const signed = `${header}.${Buffer.from(JSON.stringify({ ...claims, iat, nbf: iat, exp })).toString('base64url')}`
  return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey).toString('base64url')}`
}
