import { expect, it } from 'vitest'
import { REQUEST_LIMITS } from './limits.ts'
import { PROBLEMS, Problem, type ProblemCode, problemBody } from './problems.ts'
import { SERVER_LIMITS } from './server.ts'

const codes = Object.keys(PROBLEMS) as ProblemCode[]

it.each(codes)('%s says what to do where nothing more is known', (code) => {
  const { detail } = problemBody(new Problem(code), 'req_1')
  expect(detail).toBe(PROBLEMS[code].description)
  expect(problemBody(new Problem(code, { detail: 'The third one.' }), 'req_1').detail).toBe('The third one.')
})

it('names the limits that the server has', () => {
  const seconds = Math.min(SERVER_LIMITS.headersMs, REQUEST_LIMITS.bodyMs) / 1000
  expect(PROBLEMS.request_timeout.description).toContain(`within ${seconds} seconds`)
  expect(SERVER_LIMITS.requestMs).toBeGreaterThan(1000 * seconds)
  expect(PROBLEMS.body_too_large.description).toContain(`${REQUEST_LIMITS.bodyBytes / 1024} KiB`)
  expect(PROBLEMS.headers_too_large.description).toContain(`${SERVER_LIMITS.headerBytes / 1024} KiB`)
})

it('leaves the word to the places that are wrong', () => {
  const errors = [{ pointer: '/url', message: 'must be an https URL' }]
  expect(problemBody(new Problem('invalid', { errors }), 'req_1')).toEqual({
    type: 'urn:davit:problem:invalid',
    title: 'Validation failed',
    status: 422,
    code: 'invalid',
    errors,
    requestId: 'req_1',
  })
})
