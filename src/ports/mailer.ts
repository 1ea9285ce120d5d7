export type Mail = { to: string[]; subject: string; text: string }

/** Sends one mail. @throws Error with the server's words when it was not accepted */
export interface Mailer {
  send(mail: Mail): Promise<void>
}
