import { expect, test } from 'vitest'
import { createResolver, type NameServer } from './dial.ts'

function coded(code: string): Error {
  return Object.assign(new Error(code), { code })
}

type Answers = { v4?: string[] | string; v6?: string[] | string; lookup?: string[] | string }

/** Answers are addresses, or the code of the failure. */
function nameServer(answers: Answers) {
  const asked: string[] = []
  const reply = async (kind: string, name: string, answer: string[] | string = 'ENOTFOUND') => {
    asked.push(`${kind} ${name}`)
    if (typeof answer === 'string') throw coded(answer)
    return answer
  }
  const server: NameServer = {
    resolve4: (name) => reply('A', name, answers.v4),
    resolve6: (name) => reply('AAAA', name, answers.v6),
    lookup: (name) => reply('lookup', name, answers.lookup),
  }
  return { server, asked }
}

test.each([
  { given: { v4: ['1.1.1.1', '2.2.2.2'], v6: ['2606::1'] }, want: ['1.1.1.1', '2606::1', '2.2.2.2'] },
  { given: { v4: ['1.1.1.1'], v6: 'ENODATA' }, want: ['1.1.1.1'] },
  { given: { v4: 'ETIMEOUT', v6: ['2606::1'] }, want: ['2606::1'] },
  { given: { v4: ['1.1.1.1', '1.1.1.2', '1.1.1.3', '1.1.1.4', '1.1.1.5', '1.1.1.6', '1.1.1.7'] }, want: 6 },
])('both families are asked for, in turn: $given', async ({ given, want }) => {
  const found = await createResolver({ machineNames: false, server: nameServer(given).server })('example.com')
  if (typeof want === 'number') expect(found).toHaveLength(want)
  else expect(found).toEqual(want)
})

test.each([
  { given: { v4: 'ENOTFOUND', v6: 'ENOTFOUND' }, want: 'ENOTFOUND' },
  { given: { v4: 'ENODATA', v6: 'ESERVFAIL' }, want: 'ESERVFAIL' },
  { given: { v4: 'ETIMEOUT', v6: 'ENODATA' }, want: 'ETIMEOUT' },
  { given: { v4: [], v6: [] }, want: 'ENOTFOUND' },
])('without an address the failure that says most is thrown: $given', async ({ given, want }) => {
  const { server, asked } = nameServer(given)
  await expect(createResolver({ machineNames: false, server })('example.com')).rejects.toMatchObject({
    code: want,
  })
  expect(asked).not.toContain('lookup example.com')
})

test.each([
  { name: 'not in DNS, but known to the machine', given: { lookup: ['10.0.0.1'] }, want: ['10.0.0.1'] },
  {
    name: 'in DNS: the machine is not asked',
    given: { v4: ['1.1.1.1'], lookup: ['10.0.0.1'] },
    want: ['1.1.1.1'],
  },
])('names the machine knows serve receivers inside the cluster: $name', async ({ given, want }) => {
  expect(
    await createResolver({ machineNames: true, server: nameServer(given).server })('receiver.acme'),
  ).toEqual(want)
})

test('a name server in trouble does not send the name to the machine', async () => {
  const { server, asked } = nameServer({ v4: 'ESERVFAIL', v6: 'ENOTFOUND', lookup: ['10.0.0.1'] })
  await expect(createResolver({ machineNames: true, server })('x.example')).rejects.toMatchObject({
    code: 'ESERVFAIL',
  })
  expect(asked).toEqual(['A x.example', 'AAAA x.example'])
})

test('localhost is never a question for DNS', async () => {
  const { server, asked } = nameServer({ v4: ['8.8.8.8'] })
  const resolve = createResolver({ machineNames: true, server })
  expect(await resolve('localhost')).toEqual(['127.0.0.1', '::1'])
  expect(await resolve('a.localhost')).toEqual(['127.0.0.1', '::1'])
  expect(asked).toEqual([])
})

test('a burst to one name is one question, and the answer is not kept', async () => {
  const { server, asked } = nameServer({ v4: ['1.1.1.1'] })
  const resolve = createResolver({ machineNames: false, server })
  await Promise.all(Array.from({ length: 100 }, () => resolve('example.com')))
  expect(asked).toEqual(['A example.com', 'AAAA example.com'])
  await resolve('example.com')
  expect(asked).toHaveLength(4)
})

test('200 names whose server hangs do not keep others waiting', async () => {
  const hanging = new Promise<string[]>(() => undefined)
  const answer = (name: string) => (name.startsWith('slow') ? hanging : Promise.resolve(['1.1.1.1']))
  const server: NameServer = { resolve4: answer, resolve6: answer, lookup: answer }
  const resolve = createResolver({ machineNames: true, server })
  for (let i = 0; i < 200; i += 1) void resolve(`slow-${i}.example`)
  expect(await resolve('fast.example')).toEqual(['1.1.1.1', '1.1.1.1'])
})

test('the machine is asked for at most two names at a time, and each gets its turn', async () => {
  let running = 0
  let most = 0
  const lookup = async () => {
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    return ['10.0.0.1']
  }
  const missing = () => Promise.reject(coded('ENOTFOUND'))
  const resolve = createResolver({
    machineNames: true,
    server: { resolve4: missing, resolve6: missing, lookup },
  })
  const found = await Promise.all(Array.from({ length: 20 }, (_, i) => resolve(`name-${i}`)))
  expect(found).toHaveLength(20)
  expect(most).toBe(2)
})
