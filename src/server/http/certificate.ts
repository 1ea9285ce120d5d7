import { readFile } from 'node:fs/promises'
import type { Logger } from '../../lib/log.ts'

/**
 * The certificate of a server, in two files as of a mounted Secret, which may be renewed while the server runs. Polls the files: a
 * mounted Secret changes by replacing a symbolic link, which a watch on the files does not report.
 */

/** In PEM form: the chain, and its key. */
export type Certificate = { cert: string; key: string }

export type CertificateSource = {
  current(): Certificate
  /** If the listener throws, the earlier certificate stays, and the next one is tried. */
  listen(listener: (certificate: Certificate) => void): void
  close(): void
}

export type CertificateFiles = { certFile: string; keyFile: string }

const LOOK_MS = 30_000

/** @throws Error if they cannot be read */
export async function watchCertificateFiles(
  files: CertificateFiles,
  { log, lookMs = LOOK_MS }: { log: Logger; lookMs?: number },
): Promise<CertificateSource> {
  let current = await read(files)
  const listeners: ((certificate: Certificate) => void)[] = []
  const look = async () => {
    try {
      const found = await read(files)
      if (found.cert === current.cert && found.key === current.key) return
      for (const listener of listeners) listener(found)
      current = found
      log.info('Took up a renewed certificate', { file: files.certFile })
    } catch (error) {
      log.warn('The certificate cannot be renewed; the one before stays', { file: files.certFile, error })
    }
  }
  const timer = setInterval(() => void look(), lookMs)
  timer.unref()
  return {
    current: () => current,
    listen: (listener) => void listeners.push(listener),
    close: () => clearInterval(timer),
  }
}

async function read({ certFile, keyFile }: CertificateFiles): Promise<Certificate> {
  const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
  return { cert, key }
}
