/** Limits so low that a few events reach them. */
import { randomBytes } from 'node:crypto'
import { until } from '../../support/until.ts'
import { API_SETTINGS, CONTROLLER_SETTINGS, type MonitoringBed } from '../bed/bed.ts'
import { type Fault, OTHER_TYPE, untilKnown } from './fault.ts'

export const lowLimits: Fault = {
  what: 'limits are low, payloads large, and receivers hang',
  alerts: [
    'DavitAttemptsAtLimit',
    'DavitDeliveriesLate',
    'DavitLogNearLimit',
    'DavitLogOverLimit',
    'DavitPendingNearLimit',
    'DavitPublishingRefused',
    'DavitWritesNearLimit',
  ],
  async cause(bed) {
    const limits = {
      DAVIT_MAX_LOG_BYTES: '1048576',
      DAVIT_MAX_WRITTEN_BYTES: '1468006',
      DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: '1468006',
      DAVIT_MAX_PENDING: '20',
      DAVIT_MAX_PENDING_PER_ORGANIZATION: '20',
    }
    const [first, second] = bed.controllers
    await second.kill()
    // All that run, since alerts look at the highest limit that any of them tells of.
    await Promise.all([
      first.restart({ ...CONTROLLER_SETTINGS, ...limits, DAVIT_MAX_IN_FLIGHT: '2' }),
      ...bed.servers.map((server) => server.restart({ ...API_SETTINGS, ...limits })),
    ])
    await Promise.all([first, ...bed.servers].map((member) => member.process.untilReady()))
    // Before anything hangs, since what is pending has a limit, too.
    // It cannot be compressed, so it is written as it is.
    const text = randomBytes(153_750).toString('base64')
    for (let n = 0; n < 6; n += 1) await untilTaken(bed, { n, text })
    for (const name of ['hangs-1', 'hangs-2', 'hangs-3', 'hangs-4']) {
      bed.receiver.answer(`/${name}`, 'hang')
      await bed.endpoint(name, `${bed.receiver.url}/${name}`, { eventTypes: [OTHER_TYPE] })
    }
    await untilKnown()
  },
  // Five deliveries each, four of them to receivers that hang, until no more may be pending.
  goOn: (bed) => bed.publish({ n: 4 }, OTHER_TYPE),
}

/** Shards of a controller that was killed wait for its Lease to end. */
async function untilTaken(bed: MonitoringBed, data: unknown): Promise<void> {
  const taken = async () => (await bed.publish(data)) === 202 || undefined
  await until(taken, () => 'no event is accepted')
}
