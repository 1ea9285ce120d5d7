/**
 * `npm run figures`: figures of the code structure, to compare two commits. `-- --list` names the files that each flow runs, `--
 * --static` leaves the flows out.
 */
import { parseArgs } from 'node:util'
import { commitOfTree } from '../../test/support/commit.ts'
import { credentialFlow, eventFlow, shardFlow } from './flows.ts'
import { observe, observedLines } from './observe.ts'
import { readProduct } from './product-files.ts'
import { setScene } from './scene.ts'
import { structureLines, structureOf } from './structure.ts'

const { values: options } = parseArgs({
  options: { list: { type: 'boolean', default: false }, static: { type: 'boolean', default: false } },
})

say(`commit                 ${commitOfTree()}`)
for (const line of structureLines(structureOf(readProduct()))) say(line)
if (!options.static) await sayFlows()
// Open client connections would keep Node alive for a while.
process.exit()

async function sayFlows(): Promise<void> {
  const scene = await setScene()
  try {
    say('product files with a function that runs, from cause to effect')
    for (const start of [eventFlow, credentialFlow, shardFlow]) {
      for (const line of observedLines(await observe(await start(scene)), options)) say(line)
    }
  } finally {
    await scene.stop()
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
