/** What a receiver with one secret is sent, and whether it may take it. */
import { newSecret, type SignedDelivery, type Signer } from './signed-deliveries.ts'

export type Case = { what: string; taken: boolean; sent: SignedDelivery }

const MINUTE = 60_000

/** @param secret the one that the receiver knows */
export async function casesFor(signer: Signer, secret: string): Promise<Case[]> {
  const right = await signer.deliver([secret])
  const other = await signer.deliver([secret])
  const text = right.body.toString('utf8')
  const taken = (what: string, sent: SignedDelivery) => ({ what, taken: true, sent })
  const refused = (what: string, sent: Partial<SignedDelivery>) => ({
    what,
    taken: false,
    sent: { ...right, ...sent },
  })
  return [
    taken('a delivery of Davit', right),
    taken('one with a newer secret in force', await signer.deliver([newSecret(), secret])),
    taken('one with an older secret still in force', await signer.deliver([secret, newSecret()])),
    taken('one from a clock that is four minutes behind', await signer.deliver([secret], -4 * MINUTE)),
    taken('one with signatures of a version to come', {
      ...other,
      signatures: `v1a,${'A'.repeat(86)}== ${other.signatures}`,
    }),
    refused('one that was signed with another secret', await signer.deliver([newSecret()])),
    refused('one that was sent ten minutes ago', await signer.deliver([secret], -10 * MINUTE)),
    refused('one from a clock that is ten minutes ahead', await signer.deliver([secret], 10 * MINUTE)),
    refused('a body with another digit', {
      body: Buffer.from(text.replace('9007199254740993', '9007199254740992')),
    }),
    refused('a body with a line break at its end', { body: Buffer.from(`${text}\n`) }),
    refused('a body that was parsed and written again', {
      body: Buffer.from(JSON.stringify(JSON.parse(text))),
    }),
    refused('no body', { body: Buffer.alloc(0) }),
    refused('another id', { id: other.id }),
    refused('another stamp', { timestamp: String(Number(right.timestamp) + 1) }),
    refused('a stamp that is none', { timestamp: 'soon' }),
    refused('no stamp', { timestamp: '' }),
    refused('the signature of another delivery', { signatures: other.signatures }),
    refused('the right bytes under another version', { signatures: right.signatures.replace('v1,', 'v2,') }),
    refused('half of the signature', { signatures: right.signatures.slice(0, 20) }),
    refused('a signature that is not well-formed', { signatures: 'v1 v1, v1,@ ,' }),
    refused('no signature', { signatures: '' }),
  ]
}
