/** A credential provider of kubelet: see docs/guides/pull-images.md. */
const [option, ...more] = process.argv.slice(2)
if (option === '--version' && more.length === 0) {
  const { VERSION } = await import('../lib/version.ts')
  process.stdout.write(`davit-credential-provider ${VERSION}\n`)
} else if (option !== undefined) {
  process.stderr.write('usage: davit-credential-provider [--version]; kubelet writes a request on stdin\n')
  process.exitCode = 2
} else {
  const { runCredentialProvider } = await import('../cmd/node-helpers.ts')
  await runCredentialProvider()
}
