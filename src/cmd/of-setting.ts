/** What a setting is for. @throws Error with the name of the setting before what went wrong */
export async function withSettingName<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    throw new Error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}
