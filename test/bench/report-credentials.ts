/** The results of the section on credentials for people. */
import { mebibytes } from './figures.ts'
import type { CredentialsLoad } from './sections/credentials.ts'
import { renderTable } from './table.ts'

export function renderCredentials(load: CredentialsLoad): string {
  const { organizations, each, perSecond, fairShare, controller, idleWrites } = load
  const title = `${organizations * each} secrets of ${organizations} organizations, handed over at once to one account that takes ${perSecond} a second`
  // Leases, and what an API server keeps of itself.
  const isKept = (what: string) => / (leases|endpoints|endpointslices)$/.test(what)
  const sum = (of: (what: string) => boolean) =>
    Object.entries(idleWrites).reduce((total, [what, count]) => total + (of(what) ? count : 0), 0)
  return renderTable(title, [
    ['', 'measured', 'wanted'],
    ['stored', String(load.stored), String(organizations * each)],
    ['made in s', load.createSeconds.toFixed(1)],
    ['stored in s', load.storeSeconds.toFixed(1), ((organizations * each) / perSecond).toFixed(1)],
    ['waited, of the fair share: worst', fairShare.worst.toFixed(2), '1.5'],
    ['the same, median', fairShare.median.toFixed(2), '1.0'],
    ['organization that comes meanwhile, connected in s', load.latecomerSeconds.toFixed(1), '60'],
    ['retries per put', load.retriesPerPut.toFixed(3), '0.2'],
    ['puts that the account refused', String(load.throttled)],
    ['API writes per credential', load.apiWritesEach.toFixed(2)],
    ['API writes a minute at rest', sum((what) => !isKept(what)).toFixed(0), '0'],
    ['besides, leases and what an API server keeps', sum(isKept).toFixed(0)],
    ['controller MiB before', mebibytes(controller.before)],
    ['controller MiB at most', mebibytes(controller.most)],
    ['controller MiB at rest', mebibytes(controller.after)],
  ])
}
