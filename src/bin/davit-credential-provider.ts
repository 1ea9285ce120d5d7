/**
 * A credential provider of kubelet: see docs/guides/pull-images.md. Kubelet passes the `args` of its configuration, which other providers
 * need (such as `get-credentials`); the request on stdin says everything, so they are ignored.
 */
const [option, ...more] = process.argv.slice(2)
if (option === '--version' && more.length === 0) {
  const { VERSION } = await import('../lib/version.ts')
  process.stdout.write(`davit-credential-provider ${VERSION}\n`)
} else {
  const { runCredentialProvider } = await import('../cmd/node-helpers.ts')
  await runCredentialProvider()
}
