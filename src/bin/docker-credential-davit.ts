/** A credential helper of docker and compatible tools: see docs/guides/pull-images.md. */
const USAGE = 'Usage: docker-credential-davit <store|get|erase|list|version>'

const [action, ...more] = process.argv.slice(2)
if (action === undefined || more.length > 0) {
  process.stdout.write(`${USAGE}\n`)
  process.exitCode = 1
} else if (action === 'version') {
  const { VERSION } = await import('../lib/version.ts')
  process.stdout.write(`docker-credential-davit (davit.dev) ${VERSION}\n`)
} else {
  const { runDockerHelper } = await import('../cmd/node-helpers.ts')
  await runDockerHelper(action)
}
