import type { ContractCase } from './contract.ts'
import { ECR_CASES } from './contract-ecr.ts'
import { SSM_READ_CASES } from './contract-ssm-read.ts'
import { SSM_WRITE_CASES } from './contract-ssm-write.ts'
import { STS_CASES } from './contract-sts.ts'

export const AWS_CONTRACT: readonly ContractCase[] = [
  ...STS_CASES,
  ...SSM_WRITE_CASES,
  ...SSM_READ_CASES,
  ...ECR_CASES,
]
