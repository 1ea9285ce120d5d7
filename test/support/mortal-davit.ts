/**
 * Davit with a process that ends at a call to the real API server, like after `kill -9`, and is started again:
 *
 *   const mortal = await startMortalDavit('restart')
 *   mortal.api.fail(calling('create', outcomeSegments), 'dies before')
 *   await mortal.davit.publishOnly('environment.started', { number: 1 })
 *   await mortal.reborn()
 *
 * A dead process sends and receives nothing; its requests in progress are cut off.
 */
import { type DavitOptions, startDavit, type TestDavit } from './davit.ts'
import { FaultyApi } from './faulty-api.ts'
import { until } from './until.ts'

export type MortalDavit = {
  davit: TestDavit
  /** The API of the running process; faults are scripted here. */
  readonly api: FaultyApi
  /** Number of processes so far, including the running one. */
  readonly lives: number
  /** Resolves when a fault has ended the process, and the next one has read its state back. */
  reborn(): Promise<void>
  /** Ends the process immediately. */
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
    env: { DAVIT_SHUTDOWN_TIMEOUT: '0s', ...options.env },
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
