/** Writes tar archives for image layers. Source: POSIX.1-1988, "ustar Interchange Format". */

const BLOCK = 512

export function tarOf(files: Readonly<Record<string, Buffer | string>>, mode = 0o644): Buffer {
  const parts = Object.entries(files).flatMap(([name, content]) => {
    const body = Buffer.from(content)
    const padding = Buffer.alloc((BLOCK - (body.length % BLOCK)) % BLOCK)
    return [headerOf(name, body.length, mode), body, padding]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

function headerOf(name: string, size: number, mode: number): Buffer {
  const header = Buffer.alloc(BLOCK)
  const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`
  header.write(name, 0, 100)
  header.write(octal(mode, 8), 100)
  header.write(octal(0, 8), 108)
  header.write(octal(0, 8), 116)
  header.write(octal(size, 12), 124)
  header.write(octal(0, 12), 136)
  header.write(' '.repeat(8), 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}
