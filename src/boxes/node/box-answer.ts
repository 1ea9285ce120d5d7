/** What a helper prints and ends with. */
export type HelperResult = {
  exitCode: 0 | 1
  stdout: string
  stderr: string
}
