/**
 * Davit whose process ends at a call to the real API server, as `kill -9` would end it there, and is started again:
 *
 *   const mortal = await startMortalDavit('restart')
 *   mortal.api.fail(calling('create', outcomeSegments), 'dies before')
 *   await mortal.davit.publishOnly('environment.started', { number: 1 })
 *   await mortal.reborn()
 *
 * The dead send nothing and hear nothing; what they had on the wire is cut off.
 */
import { type DavitOptions, startDavit, type TestDavit } from './davit.ts'
import { FaultyApi } from './faulty-api.ts'
import { until } from './until.ts'

export type MortalDavit = {
  davit: TestDavit
  /** What the process that runs calls; faults are told to it. */
  readonly api: FaultyApi
  /** Processes so far, the one that runs included. */
  readonly lives: number
  /** Resolves when a fault has ended the process, and the next one has read back what it left. */
  reborn(): Promise<void>
  /** Ends the process here and now. */
  kill(): void
  stop(): Promise<void>
}

export async function startMortalDavit(
  topic: string,
  options: Omit<DavitOptions, 'wrapApi'> = {},
): Promise<MortalDavit> {
  const lives: FaultyApi[] = []
  const burials: Promise<void>[] = []
  const davit = await startDavit(topic, {
    ...options,
    env: { DAVIT_DRAIN_SECONDS: '0', ...options.env },
    wrapApi: (inner) => {
      const api = new FaultyApi(inner)
      lives.push(api)
      void api.died.then(() => davit.controller.webhooks.engine.stop())
      return Object.assign(api, { close: () => inner.close() })
    },
  })
  const current = (): FaultyApi => {
    const api = lives.at(-1)
    if (!api) throw new Error('no process was started')
    return api
  }
  return {
    davit,
    get api() {
      return current()
    },
    get lives() {
      return lives.length
    },
    async reborn() {
      const dead = current()
      const { controller } = davit
      await until(
        async () => dead.dead || undefined,
        () => 'the process did not die',
      )
      dead.bury()
      burials.push(controller.stop())
      await davit.startController()
    },
    kill: () => current().die(),
    async stop() {
      await Promise.all(burials)
      await davit.stop()
    },
  }
}
