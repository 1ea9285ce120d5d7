/** Two facades beside one controller, and a receiver for the endpoints that are made through them. */
import type { EndpointDraft } from '../../src/server/endpoint-resource.ts'
import { startDavit, type TestDavit } from './davit.ts'
import { type Receiver, startReceiver } from './receiver.ts'
import { makeOwnerKey, type RestFacade, startRestFacade } from './rest-facade.ts'

export class RestEndpoints {
  readonly davit: TestDavit
  readonly receiver: Receiver
  readonly facade: RestFacade
  readonly other: RestFacade

  private constructor(
    davit: TestDavit,
    receiver: Receiver,
    { facade, other }: { facade: RestFacade; other: RestFacade },
  ) {
    this.davit = davit
    this.receiver = receiver
    this.facade = facade
    this.other = other
  }

  static async start(name: string): Promise<RestEndpoints> {
    const receiver = await startReceiver()
    const davit = await startDavit(name)
    const key = await makeOwnerKey(davit)
    const facade = await startRestFacade(davit, key)
    return new RestEndpoints(davit, receiver, { facade, other: await startRestFacade(davit, key) })
  }

  draft(path: string, more: Partial<EndpointDraft> = {}): EndpointDraft {
    return { url: `${this.receiver.url}/${path}`, eventTypes: ['environment.started'], ...more }
  }

  async make(path: string, more: Partial<EndpointDraft> = {}) {
    const { organization } = this.davit
    const made = await this.facade.endpoints.create(organization, this.draft(path, more), {})
    return { ...made, id: { organization, endpointId: made.endpoint.endpointId } }
  }

  async publish(number: number): Promise<void> {
    const dataText = JSON.stringify({ environmentId: `env_${number}` })
    const event = { type: 'environment.started', dataText }
    await this.facade.publishing.publish(this.davit.organization, event, {})
  }

  async stop(): Promise<void> {
    await Promise.all([this.facade.stop(), this.other.stop()])
    await this.davit.stop()
    await this.receiver.close()
  }
}
