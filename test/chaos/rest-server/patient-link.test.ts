import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { SeededRandom } from '../seeded-random.ts'
import { Ledger } from './ledger.ts'
import { PatientLink } from './patient-link.ts'

const toClose: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close()
})

/** A link to a REST server that rejects the first request; it gives up immediately. */
async function linkTo(calmMs?: () => number, refusal = 503) {
  let asked = 0
  const server = createServer((_, response) => {
    asked += 1
    response.writeHead(asked === 1 ? refusal : 200).end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ledger = new Ledger()
  const link = new PatientLink({
    baseUrls: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`],
    apiKey: 'key',
    ledger,
    random: new SeededRandom(1),
    patienceMs: 1,
    ...(calmMs ? { calmMs } : {}),
  })
  toClose.push(
    () => new Promise((resolve) => server.close(resolve)),
    () => link.close(),
  )
  return { link, ledger }
}

test('what is not answered for long is complained of', async () => {
  const { link, ledger } = await linkTo()
  expect(await link.ask({ method: 'GET', path: '/' }, 0)).toBeUndefined()
  expect(ledger.wrong).toEqual(['GET / was never answered'])
})

test.each([
  ['cannot answer', 503],
  ['has too much to do', 429],
  ['was suspended while the request came', 408],
])('a REST server that %s is asked again for as long as that takes', async (_, refusal) => {
  const { link, ledger } = await linkTo(() => 0, refusal)
  expect(await link.ask({ method: 'GET', path: '/' }, 0)).toMatchObject({ status: 200 })
  expect(ledger.wrong).toEqual([])
})
