/**
 * Reads a few numbers from the metadata of a GGUF file, given its first bytes. The bytes are not trusted: reading ends
 * at the first invalid entry, and the entries before it count.
 */

export interface GgufFacts {
  readonly architecture?: string;
  /** It is no model, but an adapter for one: LoRA weights. */
  readonly isLora?: true;
  readonly contextLength?: number;
  /** Bytes of the attention cache for each token of context, at 16 bits per number. */
  readonly kvBytesPerToken?: number;
}

const MAGIC = 'GGUF';
const MAX_ENTRIES = 100_000;
const MAX_KEY_BYTES = 65_535;
/** Larger than any number of a real model; larger ones are ignored. */
const MAX_NUMBER = 2 ** 31;
/** The sizes of the fixed-size value types by their number in the format; 8 is a string and 9 an array. */
const VALUE_BYTES: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
};
const STRING_TYPE = 8;
const ARRAY_TYPE = 9;

export const isGguf = (bytes: Buffer): boolean => bytes.subarray(0, 4).toString('latin1') === MAGIC;

export function readGguf(bytes: Buffer): GgufFacts | undefined {
  if (!isGguf(bytes)) return undefined;
  const found = new Map<string, number | string>();
  try {
    collect(new ByteReader(bytes), found);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return factsOf(found);
}

function collect(reader: ByteReader, found: Map<string, number | string>): void {
  reader.skip(MAGIC.length);
  const version = reader.u32();
  if (version < 2 || version > 3) return;
  reader.skip(8);
  const entries = Math.min(reader.u64(), MAX_ENTRIES);
  for (let entry = 0; entry < entries; entry++) {
    const key = reader.text(MAX_KEY_BYTES);
    const value = reader.value(reader.u32());
    if (value !== undefined) found.set(key, value);
  }
}

function factsOf(found: ReadonlyMap<string, number | string>): GgufFacts {
  const architecture = found.get('general.architecture');
  if (typeof architecture !== 'string') return {};
  const number = (name: string): number | undefined => {
    const value = found.get(`${architecture}.${name}`);
    return typeof value === 'number' && value > 0 && value < MAX_NUMBER ? Math.floor(value) : undefined;
  };
  const contextLength = number('context_length');
  const layers = number('block_count');
  const heads = number('attention.head_count');
  const width = number('embedding_length');
  const each = heads === undefined || width === undefined ? undefined : width / heads;
  const keys = number('attention.key_length') ?? each;
  const values = number('attention.value_length') ?? each;
  const kvHeads = number('attention.head_count_kv') ?? heads;
  const known = layers !== undefined && keys !== undefined && values !== undefined && kvHeads !== undefined;
  const kvBytesPerToken = known ? Math.ceil(layers * kvHeads * (keys + values) * 2) : undefined;
  return {
    architecture: architecture.slice(0, 64),
    ...(found.get('general.type') === 'adapter' && found.get('adapter.type') === 'lora' && { isLora: true }),
    ...(contextLength !== undefined && { contextLength }),
    ...(kvBytesPerToken !== undefined && Number.isSafeInteger(kvBytesPerToken) && { kvBytesPerToken }),
  };
}

/** Reads values one after another; throws RangeError past the end of the bytes. */
class ByteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  skip(bytes: number): void {
    if (bytes > this.#bytes.length - this.#at) throw new RangeError('past the end');
    this.#at += bytes;
  }

  u32(): number {
    const value = this.#bytes.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  u64(): number {
    const value = this.#bytes.readBigUInt64LE(this.#at);
    this.#at += 8;
    return Number(value);
  }

  text(maxBytes: number): string {
    const length = this.u64();
    if (length > maxBytes) throw new RangeError('longer than it may be');
    const start = this.#at;
    this.skip(length);
    return this.#bytes.toString('utf8', start, this.#at);
  }

  /** For an array its largest number: an upper bound where the layers of a model differ. */
  value(type: number): number | string | undefined {
    if (type === STRING_TYPE) return this.text(this.#bytes.length);
    if (type === ARRAY_TYPE) return this.#list();
    return this.#fixed(type);
  }

  #list(): number | undefined {
    const type = this.u32();
    const length = this.u64();
    const size = VALUE_BYTES[type];
    // The format has no limit for arrays; the number of bytes at hand is one.
    if (type !== STRING_TYPE && size === undefined) throw new RangeError('a list of something else');
    if (length > this.#bytes.length) throw new RangeError('past the end');
    let largest: number | undefined;
    for (let item = 0; item < length; item++) {
      const value = this.value(type);
      if (typeof value === 'number' && !(value <= (largest ?? Number.NEGATIVE_INFINITY))) largest = value;
    }
    return largest;
  }

  #fixed(type: number): number | undefined {
    const size = VALUE_BYTES[type];
    if (size === undefined) throw new RangeError('no such type');
    const start = this.#at;
    this.skip(size);
    if (type === 4) return this.#bytes.readUInt32LE(start);
    if (type === 5) return this.#bytes.readInt32LE(start);
    if (type === 10) return Number(this.#bytes.readBigUInt64LE(start));
    if (type === 11) return Number(this.#bytes.readBigInt64LE(start));
    return undefined;
  }
}
