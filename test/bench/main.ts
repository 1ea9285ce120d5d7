import { webhookDeliveries } from '../../src/api/webhook-delivery.ts'
import { makeEndpoints, RAW, startBed, startController } from './bed.ts'
import { nextRun, runLoad } from './sections/davit-load.ts'

const seconds = Number(process.argv[2] ?? 8)
const bed = await startBed()
try {
  const controller = await startController(bed)
  const objects = await makeEndpoints(bed, {
    name: 'objects',
    organizations: 1,
    endpoints: 1,
    deliveryLog: 'Objects',
    path: '/ok/o',
  })
  const segments = await makeEndpoints(bed, {
    name: 'segments',
    organizations: 1,
    endpoints: 1,
    deliveryLog: 'Segments',
    path: '/ok/s',
  })
  await bed.publisher.call('list', ['objects-0', 'segments-0'])
  const davit = async (routes: typeof objects) => {
    const r = await runLoad({
      bed,
      controllerPid: controller.pid,
      load: { routes, seconds, bytes: 180, publishers: 32 },
    })
    console.log({
      perSecond: r.perSecond,
      deliveries: r.published.deliveries,
      behind: r.behind,
      writesPer: r.writesPerDelivery,
      lat: r.received.latency,
      ack: r.published.accepted,
      cpu: Object.fromEntries(Object.entries(r.cost.cpu).map(([k, v]) => [k, v / r.published.deliveries])),
      writes: Object.fromEntries(r.cost.writes),
      requests: r.received.requests,
      closed: bed.closings.closed,
    })
  }
  await runLoad({
    bed,
    controllerPid: controller.pid,
    load: { routes: objects, seconds: 2, bytes: 180, publishers: 32 },
  })
  await runLoad({
    bed,
    controllerPid: controller.pid,
    load: { routes: segments, seconds: 2, bytes: 180, publishers: 32 },
  })
  const [sample] = (await bed.api.list(webhookDeliveries, { namespace: 'objects-0', limit: 1 })).items
  if (!sample) throw new Error('no sample')
  const { kubeconfigPath } = bed.controlPlane
  const rawO = async () => {
    const r = await bed.raw.call('objects', {
      kubeconfigPath,
      namespace: RAW,
      sample,
      publishers: 32,
      seconds,
    })
    console.log('rawO', r.deliveries / ((r.endedAt - r.startedAt) / 1e6))
  }
  const rawS = async () => {
    const run = nextRun()
    await bed.receiver.call('begin', run)
    const r = await bed.raw.call('segments', {
      kubeconfigPath,
      namespace: RAW,
      receiver: `${bed.receiverUrl}/ok/raw`,
      run,
      bytes: 180,
      publishers: 32,
      seconds,
      concurrency: 8,
    })
    console.log(
      'rawS',
      r.deliveries / ((r.endedAt - r.startedAt) / 1e6),
      await bed.receiver.call('count', null),
    )
  }
  await rawO()
  await davit(objects)
  await rawO()
  await rawS()
  await davit(segments)
  await rawS()
  console.log(await controller.call('stats', null))
  await controller.stop()
} finally {
  await bed.stop()
}
