/** The hostile receivers as a process of their own. */
import { serveCalls } from '../../bench/processes/remote-calls.ts'
import { startHostileReceivers } from '../hostile-receivers.ts'

export type HostileTarget = { name: string; url: string; hangs: boolean; counts: boolean }

export type HostileCalls = {
  /** @returns where they are, and the authority that some certificates are of */
  listen: (argument: null) => Promise<{ targets: HostileTarget[]; ca: string }>
  /** Connections that each has had so far, by its name. */
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
