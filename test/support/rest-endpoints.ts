/** Two REST servers with one controller, and a receiver for the endpoints that are created through them. */
import type { EndpointDraft } from '../../src/server/endpoint-resource.ts'
import { startDavit, type TestDavit } from './davit.ts'
import { type Receiver, startReceiver } from './receiver.ts'
import { makeOwnerKey, type RestServer, startRestServer } from './rest-server.ts'

export class RestEndpoints {
  readonly davit: TestDavit
  readonly receiver: Receiver
  readonly server: RestServer
  readonly other: RestServer

  private constructor(
    davit: TestDavit,
    receiver: Receiver,
    { server, other }: { server: RestServer; other: RestServer },
  ) {
    this.davit = davit
    this.receiver = receiver
    this.server = server
    this.other = other
  }

  static async start(name: string): Promise<RestEndpoints> {
    const receiver = await startReceiver()
    const davit = await startDavit(name)
    const key = await makeOwnerKey(davit)
    const server = await startRestServer(davit, key)
    return new RestEndpoints(davit, receiver, { server, other: await startRestServer(davit, key) })
  }

  draft(path: string, more: Partial<EndpointDraft> = {}): EndpointDraft {
    return { url: `${this.receiver.url}/${path}`, eventTypes: ['environment.started'], ...more }
  }

  async make(path: string, more: Partial<EndpointDraft> = {}) {
    const { organization } = this.davit
    const made = await this.server.endpoints.create(organization, this.draft(path, more), {})
    return { ...made, id: { organization, endpointId: made.endpoint.endpointId } }
  }

  async publish(number: number): Promise<void> {
    const dataText = JSON.stringify({ environmentId: `env_${number}` })
    const event = { type: 'environment.started', dataText }
    await this.server.publishing.publish(this.davit.organization, event, {})
  }

  async stop(): Promise<void> {
    await Promise.all([this.server.stop(), this.other.stop()])
    await this.davit.stop()
    await this.receiver.close()
  }
}
