export type Mail = { to: string[]; subject: string; text: string }

/** Sends one mail. @returns for how many of the recipients it was accepted @throws Error, with the server's words, when for none */
export interface Mailer {
  send(mail: Mail): Promise<number>
}
