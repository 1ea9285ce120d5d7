/** Pushes images to a registry through its API. Source: OCI distribution specification, "Push". */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { buffer } from 'node:stream/consumers'
import type { Blob, Image, ImageIndex } from './images.ts'

export type PushTarget = {
  /** With scheme, host and port. */
  url: string
  ca?: string
  /** Value of `Authorization` for a repository. */
  authorization?: (repository: string) => Promise<string> | string
}

type Sent = { method: string; path: string; body?: Buffer; type?: string }

/** @returns the digest by which the image can be pulled */
export async function push(
  target: PushTarget,
  repository: string,
  tag: string,
  image: Image | ImageIndex,
): Promise<string> {
  const authorization = await target.authorization?.(repository)
  const send = (sent: Sent) => call(target, authorization, sent)
  const images = 'images' in image ? image.images : [image]
  for (const one of images) {
    for (const blob of one.blobs) await pushBlob(send, repository, blob)
    await pushManifest(send, repository, one.manifest.digest, one)
  }
  await pushManifest(send, repository, tag, image)
  return image.manifest.digest
}

async function pushBlob(send: (sent: Sent) => Promise<Reply>, repository: string, { digest, bytes }: Blob) {
  const begun = await send({ method: 'POST', path: `/v2/${repository}/blobs/uploads/` })
  if (begun.status !== 202) throw new Error(`failed to start an upload: ${begun.status} ${begun.text}`)
  const place = new URL(begun.location, 'http://registry')
  place.searchParams.set('digest', digest)
  const type = 'application/octet-stream'
  const done = await send({ method: 'PUT', path: place.pathname + place.search, body: bytes, type })
  if (done.status !== 201) throw new Error(`failed to upload a blob: ${done.status} ${done.text}`)
}

async function pushManifest(
  send: (sent: Sent) => Promise<Reply>,
  repository: string,
  reference: string,
  { manifest, mediaType }: Pick<Image, 'manifest' | 'mediaType'>,
) {
  const path = `/v2/${repository}/manifests/${reference}`
  const done = await send({ method: 'PUT', path, body: manifest.bytes, type: mediaType })
  if (done.status !== 201) throw new Error(`failed to upload a manifest: ${done.status} ${done.text}`)
}

type Reply = { status: number; location: string; text: string }

function call(
  { url, ca }: PushTarget,
  authorization: string | undefined,
  { method, path, body, type }: Sent,
): Promise<Reply> {
  const to = new URL(path, url)
  const headers = {
    ...(authorization === undefined ? {} : { authorization }),
    ...(type === undefined ? {} : { 'content-type': type }),
    'content-length': String(body?.length ?? 0),
  }
  return new Promise((resolve, reject) => {
    const make = to.protocol === 'https:' ? httpsRequest : httpRequest
    const request = make(to, { method, headers, ...(ca === undefined ? {} : { ca }) }, (response) => {
      buffer(response).then(
        (bytes) =>
          resolve({
            status: response.statusCode ?? 0,
            location: response.headers.location ?? '',
            text: bytes.toString('utf8'),
          }),
        reject,
      )
    })
    request.once('error', reject)
    request.end(body)
  })
}
