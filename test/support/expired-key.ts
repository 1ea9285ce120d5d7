/** A key that was good until an hour ago: kubectl makes none that ends sooner than in ten minutes. */
import { createSign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ControlPlane } from '../../src/playground/control-plane.ts'

const HOUR_SECONDS = 3600

/** @param key a good one; all else stays as it is, and the API server's own key signs */
export async function expiredKey({ kubeconfigPath }: ControlPlane, key: string): Promise<string> {
  const privateKey = await readFile(join(dirname(kubeconfigPath), 'certs', 'service-accounts.key'), 'utf8')
  const [header = '', payload = ''] = key.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { iat: number }
  const iat = claims.iat - 2 * HOUR_SECONDS
  const past = { ...claims, iat, nbf: iat, exp: claims.iat - HOUR_SECONDS }
  const signed = `${header}.${Buffer.from(JSON.stringify(past)).toString('base64url')}`
  return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey).toString('base64url')}`
}
