import type { BakeOrder } from '../../../src/apis/bake.ts'

let bakes = 0

/** @param output absent: images are pulled and dropped */
export function orderOf(
  services: BakeOrder['services'],
  output: string | undefined,
  more: Partial<BakeOrder> = {},
): BakeOrder {
  bakes += 1
  return {
    template: { namespace: 'acme', name: 'shop', uid: '7d1f6f4e-0000-4000-8000-000000000001' },
    bake: `shop-${String(bakes).padStart(8, '0')}`,
    services,
    output: output === undefined ? { kind: 'none' } : { kind: 'layout', path: output },
    platform: 'linux/amd64',
    realms: [],
    deadlineSeconds: 600,
    ...more,
  }
}
