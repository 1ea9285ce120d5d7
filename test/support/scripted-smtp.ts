/** An SMTP server on the level of lines: it answers as scripted, and records every command. For what a good server never says. */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { startRawReceiver } from './receiver-raw.ts'
import type { Certificate } from './tls.ts'

export type SmtpScript = {
  greeting?: string
  /** Of the response to EHLO, such as `SMTPUTF8`. */
  extensions?: readonly string[]
  /** Offers STARTTLS. */
  tls?: Certificate | undefined
  /** The reply to a command; undefined for the usual one. `.` is the end of a message. A reply of 421, or none (``), closes the connection. */
  reply?: (command: string) => string | undefined
}

export type ScriptedSmtp = {
  port: number
  /** Of all connections, without messages. */
  commands: readonly string[]
  messages: readonly string[]
  close(): Promise<void>
}

export async function startScriptedSmtp(script: SmtpScript = {}): Promise<ScriptedSmtp> {
  const commands: string[] = []
  const messages: string[] = []
  const receiver = await startRawReceiver((socket) =>
    converse(socket, script, {
      command: (line) => void commands.push(line),
      message: (text) => void messages.push(text),
    }),
  )
  return { port: receiver.port, commands, messages, close: () => receiver.close() }
}

type Record = { command(line: string): void; message(text: string): void }

function converse(socket: Socket, script: SmtpScript, record: Record): void {
  const { greeting = '220 mail.example ESMTP' } = script
  socket.write(`${greeting}\r\n`)
  if (greeting.startsWith('220')) serve(socket, script, record)
  else socket.end()
}

function serve(socket: Socket, script: SmtpScript, record: Record): void {
  let buffered = ''
  let message: string[] | undefined
  const take = (line: string) => {
    if (message && line !== '.') return void message.push(line)
    if (message) record.message(message.join('\n'))
    else record.command(line)
    const reply = script.reply?.(line) ?? usualReply(line, script)
    message = undefined
    if (reply !== '') socket.write(`${reply}\r\n`)
    if (reply === '' || reply.startsWith('421')) return void socket.end()
    if (reply.startsWith('354')) message = []
    if (line === 'STARTTLS' && reply.startsWith('220')) {
      socket.removeAllListeners('data')
      const secure = new TLSSocket(socket, { isServer: true, ...script.tls })
      secure.on('error', () => socket.destroy())
      serve(secure, { ...script, tls: undefined }, record)
    }
  }
  socket.on('data', (chunk: Buffer) => {
    const lines = (buffered + chunk.toString('utf8')).split('\r\n')
    buffered = lines.pop() ?? ''
    lines.forEach(take)
  })
}

function usualReply(line: string, { extensions = [], tls }: SmtpScript): string {
  const [verb = ''] = line.toUpperCase().split(' ')
  if (verb === 'EHLO') {
    const offered = ['mail.example', ...extensions, ...(tls ? ['STARTTLS'] : [])]
    return offered.map((text, i) => `250${i === offered.length - 1 ? ' ' : '-'}${text}`).join('\r\n')
  }
  if (verb === 'DATA') return '354 go on'
  if (verb === 'STARTTLS') return tls ? '220 go on' : '502 5.5.1 no TLS here'
  if (verb === 'QUIT') return '221 bye'
  return '250 2.0.0 ok'
}
