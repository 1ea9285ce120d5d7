/** Reads the description of each setting in docs/reference/settings.md. */
export type SettingRow = { name: string; standard: string; allowed: string; about: string }

export function settingRows(page: string): SettingRow[] {
  return page
    .split('\n')
    .filter((line) => /^\| `[A-Z_]+` \|/.test(line))
    .map((line) => line.slice(2, -2).split(' | '))
    .map(([name = '', standard = '', allowed = '', about = '']) => ({
      name: bare(name),
      standard: bare(standard),
      allowed,
      about,
    }))
}

function bare(code: string): string {
  return code.replaceAll('`', '')
}
