import { expect, it } from 'vitest'
import { PROBLEMS, Problem, type ProblemCode, problemBody } from './problems.ts'

const codes = Object.keys(PROBLEMS) as ProblemCode[]

it.each(codes)('%s says what to do where nothing more is known', (code) => {
  const { detail } = problemBody(new Problem(code), 'req_1')
  expect(detail).toBe(PROBLEMS[code].description)
  expect(problemBody(new Problem(code, { detail: 'The third one.' }), 'req_1').detail).toBe('The third one.')
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
