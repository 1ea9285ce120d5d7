/**
 * `npm run contract` compares the public contract with the committed one in `contract/`, and fails if they differ; with `--write`
 * it updates the committed one.
 */
import { parseArgs } from 'node:util'
import { readBaseline, writeBaseline } from './baseline.ts'
import { compare, describeDifferences } from './compare.ts'
import { currentContract } from './current-contract.ts'

const { values: options } = parseArgs({ options: { write: { type: 'boolean', default: false } } })

const contract = await currentContract()
const differences = compare(readBaseline(), contract)
for (const line of describeDifferences(differences)) console.log(line)

if (differences.length === 0) console.log('The contract matches the committed one.')
else if (options.write) {
  writeBaseline(contract)
  console.log('Updated contract/. Add a line to CHANGELOG.md in the same commit.')
} else {
  console.log('If the change is intended, run npm run contract -- --write and add a line to CHANGELOG.md')
  process.exitCode = 1
}
