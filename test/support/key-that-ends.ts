/** Tokens with a chosen end: kubectl creates none that ends in less than ten minutes. */

import { createSign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'

const HOUR_SECONDS = 3600

/**
 * Copies a token with another end; everything else is unchanged, and the API server's own key signs it.
 * @param key a valid token
 * @param seconds from its creation to its end; negative: it has expired
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
