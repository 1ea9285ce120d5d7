/** Publishes events as a platform does: by REST, each publisher on a connection of its own. */
import { readFile } from 'node:fs/promises'
import { bodyOf, HttpClient } from '../loads/http-client.ts'
import { createPublishing, type Enter, type PublishingCalls } from '../loads/publishing.ts'
import { serveCalls } from './remote-calls.ts'

export type HttpPublisherCalls = PublishingCalls & {
  /** Uses this REST server from now on, with the API tokens in these files, by organization. */
  connect: (to: { baseUrl: string; keyFiles: Record<string, string>; connections: number }) => Promise<void>
}

const keys = new Map<string, string>()
let client: HttpClient | undefined

const enter: Enter = async ({ namespace, type }, dataText) => {
  const key = keys.get(namespace)
  if (!client || key === undefined) throw new Error(`there is no key of ${namespace}`)
  const path = `/organizations/${namespace}/events`
  const body = `{"type":"${type}","data":${dataText}}`
  const answer = await client.send({ method: 'POST', path, key, body })
  return (bodyOf(answer, 202) as { deliveries: number }).deliveries
}

serveCalls({
  connect: async ({ baseUrl, keyFiles, connections }) => {
    await client?.close()
    client = new HttpClient(baseUrl, connections)
    for (const [organization, file] of Object.entries(keyFiles))
      keys.set(organization, await readFile(file, 'utf8'))
  },
  ...createPublishing(enter),
} satisfies HttpPublisherCalls)
