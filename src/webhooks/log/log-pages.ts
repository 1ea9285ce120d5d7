/**
 * How much of the log is asked for at once: segments may be large, and then few of them make a page; where they hold
 * one event each, a page may grow.
 */
export const LOG_PAGE = 50
export const LARGEST_LOG_PAGE = 1000
