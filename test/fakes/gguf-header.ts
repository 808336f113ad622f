/** The header of a GGUF file with this metadata; bytes follow it that are no tensors. */
export function ggufHeader(
  metadata: Readonly<Record<string, string | number | readonly (string | number)[]>>,
): Buffer {
  const entries = Object.entries(metadata);
  const head = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(entries.length)]);
  return Buffer.concat([head, ...entries.map(([key, value]) => Buffer.concat([text(key), ...typed(value)]))]);
}

function typed(value: string | number | readonly (string | number)[]): Buffer[] {
  if (typeof value === 'string') return [u32(8), text(value)];
  if (typeof value === 'number') return [u32(4), u32(value)];
  const isText = typeof value[0] === 'string';
  const items = value.map((item) => (typeof item === 'string' ? text(item) : u32(item)));
  return [u32(9), u32(isText ? 8 : 4), u64(value.length), ...items];
}

const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
