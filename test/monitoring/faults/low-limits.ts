/** Limits so low that a few events reach them. */
import { randomBytes } from 'node:crypto'
import { API_SETTINGS, CONTROLLER_SETTINGS, type MonitoringBed } from '../bed/bed.ts'
import { type Fault, OTHER_TYPE, untilKnown } from './fault.ts'

/** It cannot be compressed, so it is written as it is. */
const TEXT = randomBytes(161_250).toString('base64')

const HANGING = ['hangs-1', 'hangs-2', 'hangs-3', 'hangs-4', 'hangs-5']

export const muchIsWritten: Fault = {
  what: 'limits of the log are low, and payloads large',
  alerts: ['DavitLogNearLimit', 'DavitLogOverLimit', 'DavitPublishingRefused', 'DavitWritesNearLimit'],
  async cause(bed) {
    await restart(bed, {
      DAVIT_MAX_LOG_BYTES: '1048576',
      DAVIT_MAX_WRITTEN_BYTES: '2400000',
      DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: '2400000',
    })
  },
  goOn: (bed) => bed.publish({ text: TEXT }),
}

export const muchIsOpen: Fault = {
  what: 'limits of open bytes are low, payloads large, and receivers hang',
  alerts: ['DavitOpenBytesNearLimit'],
  async cause(bed) {
    await restart(bed, {
      DAVIT_MAX_OPEN_BYTES: '1048576',
      DAVIT_MAX_OPEN_BYTES_PER_ORGANIZATION: '1048576',
    })
    for (const name of HANGING) {
      bed.receiver.answer(`/${name}`, 'hang')
      await bed.endpoint(name, `${bed.receiver.url}/${name}`, { eventTypes: [OTHER_TYPE] })
    }
    await untilKnown()
  },
  goOn: (bed) => bed.publish({ text: TEXT }, OTHER_TYPE),
}

/** The deliveries that hang since the previous fault are pending, too. */
export const manyArePending: Fault = {
  what: 'limits of deliveries are low, and receivers hang',
  alerts: ['DavitAttemptsAtLimit', 'DavitDeliveriesLate', 'DavitPendingNearLimit'],
  cause: (bed) =>
    restart(bed, {
      DAVIT_MAX_PENDING: '20',
      DAVIT_MAX_PENDING_PER_ORGANIZATION: '20',
      DAVIT_MAX_IN_FLIGHT: '2',
    }),
  goOn: (bed) => bed.publish({ is: 'small' }, OTHER_TYPE),
}

/** Alerts compare with the highest limit that any process reports. So all that run get the limits, and only one controller runs. */
async function restart({ controllers, servers }: MonitoringBed, limits: Record<string, string>) {
  const [controller, other] = controllers
  await other.kill()
  await Promise.all([
    controller.restart({ ...CONTROLLER_SETTINGS, ...limits }),
    ...servers.map((server) => server.restart({ ...API_SETTINGS, ...limits })),
  ])
  await Promise.all([controller, ...servers].map((member) => member.process.untilReady()))
}
