/** A program that ends at once with 0, as an executable of Linux that needs nothing. Source: ELF-64 object file format 1.5. */

const BASE = 0x400000
const HEADER_BYTES = 64
const SEGMENT_BYTES = 56
const READ_AND_EXECUTE = 5

type Machine = { number: number; code: readonly number[] }

/** exit(0), by the calling convention of the kernel on each. */
const MACHINES: Readonly<Record<string, Machine>> = {
  // xor edi, edi; mov eax, 60; syscall
  amd64: { number: 62, code: [0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05] },
  // mov x0, #0; mov x8, #93; svc #0
  arm64: { number: 183, code: [0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4] },
}

/** @param architecture as images name it */
export function tinyProgram(architecture: string): Buffer {
  const machine = MACHINES[architecture]
  if (machine === undefined) throw new Error(`there is no program for ${architecture}`)
  const start = HEADER_BYTES + SEGMENT_BYTES
  const bytes = Buffer.alloc(start + machine.code.length)
  bytes.write('\x7fELF\x02\x01\x01', 'latin1')
  bytes.writeUInt16LE(2, 16)
  bytes.writeUInt16LE(machine.number, 18)
  bytes.writeUInt32LE(1, 20)
  bytes.writeBigUInt64LE(BigInt(BASE + start), 24)
  bytes.writeBigUInt64LE(BigInt(HEADER_BYTES), 32)
  bytes.writeUInt16LE(HEADER_BYTES, 52)
  bytes.writeUInt16LE(SEGMENT_BYTES, 54)
  bytes.writeUInt16LE(1, 56)
  writeSegment(bytes.subarray(HEADER_BYTES), bytes.length)
  bytes.set(machine.code, start)
  return bytes
}

/** The whole file. */
function writeSegment(segment: Buffer, size: number): void {
  segment.writeUInt32LE(1, 0)
  segment.writeUInt32LE(READ_AND_EXECUTE, 4)
  segment.writeBigUInt64LE(BigInt(BASE), 16)
  segment.writeBigUInt64LE(BigInt(BASE), 24)
  segment.writeBigUInt64LE(BigInt(size), 32)
  segment.writeBigUInt64LE(BigInt(size), 40)
  segment.writeBigUInt64LE(4096n, 48)
}

/** Of this machine, as images name it. */
export function imageArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch
}
