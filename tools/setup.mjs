// The complete set-up from a bare clone, which every npm script runs first: silent and quick if there is nothing to do. Written
// for the host's own Node, which may be older than the one that Davit runs on; imports come after the version check, since a Node
// that is too old would fail on them with a stack.

const OLDEST_HOST_NODE = 20

const major = Number(process.versions.node.split('.')[0])
if (major < OLDEST_HOST_NODE) {
  console.error(
    `davit: setup needs Node.js ${OLDEST_HOST_NODE} or later, but this is ${process.version} (${process.execPath}). ` +
      'Install a later version from https://nodejs.org and try again.',
  )
  process.exitCode = 1
} else {
  void import('./setup/run.mjs').then(({ runSetup }) => runSetup(process.argv.slice(2)))
}
