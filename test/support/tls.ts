/** Certificates for tests, created by the openssl command; nothing is kept on disk. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** PEM. */
export type Certificate = { key: string; cert: string }

export type TestAuthority = {
  /** PEM of the authority, for its clients. */
  ca: string
  /** A certificate for host names and addresses. @param days validity from now on; negative: expired this long ago */
  issue(names: readonly string[], days?: number): Certificate
}

const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256']
const KEY_FILE = ['-nodes', '-keyout', 'key.pem']
const NEW_KEY = [...EC_KEY, ...KEY_FILE]

export function createTestAuthority(): TestAuthority {
  const authority = inFolder((run) => {
    run('req', '-x509', ...NEW_KEY, '-out', 'cert.pem', '-days', '30', '-subj', '/CN=Davit test authority')
  })
  return {
    ca: authority.cert,
    issue: (names, days = 30) =>
      inFolder((run, write) => {
        write('ca.pem', authority.cert)
        write('ca-key.pem', authority.key)
        write('names.cnf', `subjectAltName=${alternativeNames(names)}`)
        run('req', ...NEW_KEY, '-out', 'request.pem', '-subj', '/CN=Davit test receiver')
        const signing = ['-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-CAcreateserial', '-extfile', 'names.cnf']
        run('x509', '-req', '-in', 'request.pem', '-out', 'cert.pem', ...signing, '-days', String(days))
      }),
  }
}

/** A certificate that no authority has signed. @param key options of openssl for its key */
export function selfSignedCertificate(
  names: readonly string[],
  key: readonly string[] = EC_KEY,
): Certificate {
  return inFolder((run) => {
    const subject = [
      '-subj',
      '/CN=Davit test receiver',
      '-addext',
      `subjectAltName=${alternativeNames(names)}`,
    ]
    run('req', '-x509', ...key, ...KEY_FILE, '-out', 'cert.pem', '-days', '30', ...subject)
  })
}

type Run = (...args: string[]) => void
type Write = (name: string, text: string) => void

function inFolder(make: (run: Run, write: Write) => void): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'davit-tls-'))
  try {
    make(
      (...args) => void execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] }),
      (name, text) => writeFileSync(join(folder, name), text, { mode: 0o600 }),
    )
    const read = (name: string) => readFileSync(join(folder, name), 'utf8')
    return { key: read('key.pem'), cert: read('cert.pem') }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function alternativeNames(names: readonly string[]): string {
  return names.map((name) => `${isIP(name) ? 'IP' : 'DNS'}:${name}`).join(',')
}
