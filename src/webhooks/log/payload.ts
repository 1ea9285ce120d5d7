/**
 * The body of a delivery: Standard Webhooks `{ type, timestamp, data }`, serialized once at acceptance. What is
 * stored, signed and sent are the same bytes, so `data` given as text reaches the receiver to the digit.
 */

/** Bodies up to this size are copied into the delivery's object; larger ones stay in their segment. */
export const INLINE_PAYLOAD_BYTES = 16 * 1024

/** @param dataText valid JSON @param acceptedAt milliseconds since 1970 */
export function webhookPayload(type: string, acceptedAt: number, dataText: string): string {
  const timestamp = new Date(acceptedAt).toISOString()
  return `{"type":${JSON.stringify(type)},"timestamp":"${timestamp}","data":${dataText}}`
}

export function byteLength(text: string): number {
  return Buffer.byteLength(text, 'utf8')
}
