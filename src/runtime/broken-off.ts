/** The watch was given up to be opened anew. */
export class BrokenOff extends Error {}
