/** The hostile receivers as a separate process. */
import { serveCalls } from '../../bench/processes/remote-calls.ts'
import { startHostileReceivers } from '../hostile-receivers.ts'

export type HostileTarget = { name: string; url: string; hangs: boolean; counts: boolean }

export type HostileCalls = {
  /** @returns their addresses, and the authority of some certificates */
  listen: (argument: null) => Promise<{ targets: HostileTarget[]; ca: string }>
  /** Connections of each so far, by its name. */
  connections: (argument: null) => Record<string, number>
}

let count = (): Record<string, number> => ({})

serveCalls({
  listen: async () => {
    const { receivers, ca } = await startHostileReceivers()
    count = () => Object.fromEntries(receivers.map(({ name, connections }) => [name, connections()]))
    return { targets: receivers.map(({ name, url, hangs, counts }) => ({ name, url, hangs, counts })), ca }
  },
  connections: () => count(),
} satisfies HostileCalls)
