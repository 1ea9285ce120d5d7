/** The versions that a documentation site has: one folder each, next to `versions.json`, which the pages of each read. */

/** Folders of versions, such as `0.1`, with the newest first. */
export function versionsAmong(names: readonly string[]): string[] {
  return names.filter((name) => /^\d+\.\d+$/.test(name)).sort((one, other) => numberOf(other) - numberOf(one))
}

/** `0.1` for `0.1.0` and for `0.1.3`: a patch changes no page that a reader has to tell apart. */
export function docsVersionOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

/** The start page of the site goes on to the newest version. */
export function startPage(newest: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Davit documentation</title>
<meta http-equiv="refresh" content="0; url=./${newest}/">
<p><a href="./${newest}/">Davit ${newest}</a></p>
</html>
`
}

function numberOf(name: string): number {
  const [major = 0, minor = 0] = name.split('.').map(Number)
  return major * 1_000_000 + minor
}
