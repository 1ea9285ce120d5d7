/** The watch was given up to be opened anew. */
export class WatchReset extends Error {}
