import { readFile } from 'node:fs/promises'
import type { Logger } from '../../lib/log.ts'

/**
 * A certificate in two files, such as a mounted Secret has. They are read again at a steady pace: a mounted Secret changes by a
 * link that is put elsewhere, of which a watch on the files would not tell.
 */

export type CertificateFiles = { certFile: string; keyFile: string }

const LOOK_MS = 30_000

/** @throws Error when they cannot be read */
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

/** The certificate of a server, which may be renewed while it runs. */

/** In PEM form: the chain, and its key. */
export type Certificate = { cert: string; key: string }

export type CertificateSource = {
  current(): Certificate
  /** Told of each renewal. A listener that throws refuses it: the one before stays, and the next is tried. */
  listen(listener: (certificate: Certificate) => void): void
  close(): void
}
