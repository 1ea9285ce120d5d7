import { Session } from 'node:inspector/promises'
import { expect, test } from 'vitest'
import { type CpuProfile, cpuProfile, longestSelfTimes } from './self-times.ts'

type Sampled = readonly [functionName: string, url: string, line: number, us: readonly number[]]

/** Samples one after the other; each function is a node. */
function profileOf(...functions: Sampled[]): CpuProfile {
  const nodes = functions.map(([functionName, url, line], id) => ({
    id,
    callFrame: { functionName, url, lineNumber: line - 1 },
  }))
  const samples = functions.flatMap(([, , , us], id) => us.map(() => id))
  const durations = functions.flatMap(([, , , us]) => us)
  const timeDeltas = [500, ...durations.slice(0, -1)]
  const endTime = 1000 + 500 + durations.reduce((sum, us) => sum + us, 0)
  return { nodes, samples, timeDeltas, startTime: 1000, endTime }
}

const SRC = 'file:///home/someone/davit/src/server/http'

test('functions come in the order of their own time, with their share of the busy time', () => {
  const profile = profileOf(
    ['(idle)', '', 0, [4000]],
    ['parse', `${SRC}/body.ts`, 12, [1000, 1000]],
    ['(garbage collector)', '', 0, [5000]],
    ['handle', `${SRC}/app.ts`, 3, [3000]],
  )
  expect(longestSelfTimes(profile, 10)).toEqual({
    busyMs: 10,
    functions: [
      { name: '(garbage collector)', place: '', ms: 5, share: 0.5 },
      { name: 'handle', place: 'src/server/http/app.ts:3', ms: 3, share: 0.3 },
      { name: 'parse', place: 'src/server/http/body.ts:12', ms: 2, share: 0.2 },
    ],
  })
})

test('a function that is called from several places counts once, its namesake elsewhere apart', () => {
  const profile = profileOf(
    ['next', `${SRC}/a.ts`, 1, [1000]],
    ['next', `${SRC}/b.ts`, 1, [4000]],
    ['next', `${SRC}/a.ts`, 1, [2000]],
  )
  const { functions } = longestSelfTimes(profile, 10)
  expect(functions.map(({ place, ms }) => [place, ms])).toEqual([
    ['src/server/http/b.ts:1', 4],
    ['src/server/http/a.ts:1', 3],
  ])
})

test('only as many as wanted are listed, and shares stay those of all', () => {
  const profile = profileOf(['a', '', 0, [3000]], ['b', '', 0, [2000]], ['c', '', 0, [5000]])
  expect(longestSelfTimes(profile, 1)).toEqual({
    busyMs: 10,
    functions: [{ name: 'c', place: '', ms: 5, share: 0.5 }],
  })
})

test.for([
  ['file:///davit/src/kube/client.ts', 'src/kube/client.ts:7'],
  ['file:///davit/test/bench/processes/probe.ts', 'test/bench/processes/probe.ts:7'],
  ['file:///davit/node_modules/express/lib/router.js', 'express/lib/router.js:7'],
  ['file:///davit/node_modules/a/node_modules/@b/c/src/d.js', '@b/c/src/d.js:7'],
  ['/davit/node_modules/undici/lib/core/util.js', 'undici/lib/core/util.js:7'],
  ['node:internal/streams/writable', 'node:internal/streams/writable:7'],
  ['file:///somewhere/else.mjs', 'else.mjs:7'],
] as const)('%s is named without folders of the machine', ([url, want]) => {
  expect(longestSelfTimes(profileOf(['f', url, 7, [1]]), 1).functions[0]?.place).toBe(want)
})

test('a sample that comes late takes no time, and none is negative', () => {
  const profile = profileOf(['a', '', 0, [1000, -200]], ['b', '', 0, [1000]])
  expect(longestSelfTimes(profile, 10).functions.map(({ name, ms }) => [name, ms])).toEqual([
    ['a', 1],
    ['b', 1],
  ])
})

test('a process that was idle throughout has no functions', () => {
  expect(longestSelfTimes(profileOf(['(idle)', '', 0, [1000]]), 10)).toEqual({ busyMs: 0, functions: [] })
})

test('a profile of this process can be read', async () => {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.start')
  const end = performance.now() + 50
  while (performance.now() < end) JSON.parse(JSON.stringify({ a: [1, 2, 3] }))
  const { profile } = await session.post('Profiler.stop')
  session.disconnect()
  const { busyMs, functions } = longestSelfTimes(cpuProfile.parse(JSON.parse(JSON.stringify(profile))), 3)
  expect(busyMs).toBeGreaterThan(20)
  expect(functions.length).toBeGreaterThan(0)
})
