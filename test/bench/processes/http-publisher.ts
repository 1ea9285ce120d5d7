/** Publishes events by REST, each publisher on a connection of its own. */
import { readFile } from 'node:fs/promises'
import { createPublishing, type PublishingCalls } from '../loads/publishing.ts'
import { type PublishTarget, RestPublisher } from '../loads/rest-publisher.ts'
import { serveCalls } from './remote-calls.ts'

export type HttpPublisherCalls = PublishingCalls & {
  /** Uses these REST servers in turn from now on, with the API tokens in these files, by organization. */
  connect: (to: {
    servers: readonly PublishTarget[]
    keyFiles: Record<string, string>
    /** To all servers together. */
    connections: number
  }) => Promise<void>
}

const publisher = new RestPublisher()

serveCalls({
  connect: async ({ servers, keyFiles, connections }) => {
    const keys: Record<string, string> = {}
    for (const [organization, file] of Object.entries(keyFiles))
      keys[organization] = await readFile(file, 'utf8')
    await publisher.connect(servers, keys, connections)
  },
  ...createPublishing(publisher.enter),
} satisfies HttpPublisherCalls)
