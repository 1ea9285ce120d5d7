const CALL_LIMIT_MS = 30_000

/** A call of etcd by its JSON gateway. @param unless words of a refusal that is none */
export async function callEtcd(url: string, body: object, unless?: string): Promise<unknown> {
  const signal = AbortSignal.timeout(CALL_LIMIT_MS)
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal })
  const text = await response.text()
  const isFine = response.ok || (unless !== undefined && text.includes(unless))
  if (!isFine) throw new Error(`etcd answered ${response.status} to POST ${url}: ${text.slice(0, 500)}`)
  return JSON.parse(text)
}
