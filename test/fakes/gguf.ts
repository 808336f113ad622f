/**
 * Writes a model that a real engine loads: a tenth of a megabyte, the same bytes every time. It has no attention to
 * what was said; which word follows a word is a table, so its text can be read and ends by itself. An adapter replaces
 * that table by another one.
 */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';

export interface TinyModel {
  readonly name?: string;
  /** Another salt is another table, and so another text. */
  readonly salt?: string;
  readonly contextLength?: number;
}

const WORDS = (
  'one two three the a old new small red river stone brain worker queue job reads writes keeps finds ends ' +
  'slowly gladly never always and while because near under with'
).split(' ');

const WIDTH = 32;
const FEED_FORWARD = 64;
const HEADS = 2;
const ALIGNMENT = 32;
/** The place of every token that is no word. */
const ELSE = WIDTH - 2;
const [UNKNOWN, BEGIN, END] = [0, 1, 2] as const;
const SPACE = '\u2581';
const TEMPLATE =
  "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] }}" +
  "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

interface Token {
  readonly text: string;
  /** 1 is normal, 2 unknown, 3 control, 6 a byte. */
  readonly kind: number;
}

const TOKENS: readonly Token[] = [
  { text: '<unk>', kind: 2 },
  { text: '<s>', kind: 3 },
  { text: '</s>', kind: 3 },
  ...range(256).map((byte) => ({ text: `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, kind: 6 })),
  { text: SPACE, kind: 1 },
  ...range(94).map((at) => ({ text: String.fromCharCode(33 + at), kind: 1 })),
  ...WORDS.map((word) => ({ text: SPACE + word, kind: 1 })),
];
const FIRST_WORD = TOKENS.length - WORDS.length;
const QUOTE = TOKENS.findIndex(({ text }) => text === '"');

export function writeTinyModel(
  path: string,
  { name = 'tiny', salt = '', contextLength = 2048 }: TinyModel = {},
): void {
  writeGguf(path, [...architecture(name, contextLength), ...tokenizer()], tensorsOf(salt));
}

export interface TinyAdapter {
  /** The salt of the model that the adapter is for. */
  readonly of?: string;
  /** With the adapter the model answers as the model with this salt does. */
  readonly as: string;
  readonly architecture?: string;
  readonly type?: string;
  /** Another width than that of the model makes an adapter that does not fit. */
  readonly width?: number;
}

/** A LoRA adapter: one matrix of it changes nothing, the other one is the difference of the two tables. */
export function writeTinyAdapter(
  path: string,
  { of = '', as, architecture: name = 'llama', type = 'lora', width = WIDTH }: TinyAdapter,
): void {
  const keys = [
    entry('general.type', 8, text('adapter')),
    entry('general.architecture', 8, text(name)),
    entry('adapter.type', 8, text(type)),
    // The engine multiplies by alpha over the rank.
    entry('adapter.lora.alpha', 6, f32([WIDTH])),
  ];
  const one = new Float32Array(width * WIDTH);
  for (let place = 0; place < Math.min(width, WIDTH); place++) one[place * width + place] = 1;
  const [before, after] = [table(of), table(as)];
  const difference = after.map((value, at) => value - (before[at] ?? 0));
  writeGguf(path, keys, [
    { name: 'output.weight.lora_a', dims: [width, WIDTH], values: one },
    { name: 'output.weight.lora_b', dims: [WIDTH, TOKENS.length], values: difference },
  ]);
}

function writeGguf(path: string, keys: readonly Buffer[], tensors: readonly Tensor[]): void {
  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(keys.length), ...keys];
  let offset = 0;
  for (const { name: called, dims, values } of tensors) {
    head.push(text(called), u32(dims.length), ...dims.map(u64), u32(0), u64(offset));
    offset = aligned(offset + values.length * 4);
  }
  const data = tensors.map(({ values }) => padded(Buffer.from(values.buffer)));
  writeFileSync(path, Buffer.concat([padded(Buffer.concat(head)), ...data]));
}

function architecture(name: string, contextLength: number): Buffer[] {
  const number = (key: string, value: number): Buffer => entry(`llama.${key}`, 4, u32(value));
  return [
    entry('general.architecture', 8, text('llama')),
    entry('general.name', 8, text(name)),
    entry('general.file_type', 4, u32(0)),
    number('context_length', contextLength),
    number('embedding_length', WIDTH),
    number('block_count', 1),
    number('feed_forward_length', FEED_FORWARD),
    number('attention.head_count', HEADS),
    number('attention.head_count_kv', HEADS),
    number('rope.dimension_count', WIDTH / HEADS),
    number('vocab_size', TOKENS.length),
    entry('llama.attention.layer_norm_rms_epsilon', 6, f32([1e-5])),
    entry('llama.rope.freq_base', 6, f32([10_000])),
  ];
}

function tokenizer(): Buffer[] {
  const list = (key: string, kind: number, items: readonly Buffer[]): Buffer =>
    entry(`tokenizer.ggml.${key}`, 9, Buffer.concat([u32(kind), u64(items.length), ...items]));
  const number = (key: string, value: number): Buffer => entry(`tokenizer.ggml.${key}`, 4, u32(value));
  return [
    entry('tokenizer.ggml.model', 8, text('llama')),
    list(
      'tokens',
      8,
      TOKENS.map((token) => text(token.text)),
    ),
    list(
      'scores',
      6,
      TOKENS.map((_, at) => f32([-at])),
    ),
    list(
      'token_type',
      5,
      TOKENS.map(({ kind }) => u32(kind)),
    ),
    number('unknown_token_id', UNKNOWN),
    number('bos_token_id', BEGIN),
    number('eos_token_id', END),
    entry('tokenizer.ggml.add_bos_token', 7, Buffer.from([1])),
    entry('tokenizer.ggml.add_space_prefix', 7, Buffer.from([0])),
    entry('tokenizer.chat_template', 8, text(TEMPLATE)),
  ];
}

interface Tensor {
  readonly name: string;
  /** The fastest first. */
  readonly dims: readonly number[];
  readonly values: Float32Array;
}

function tensorsOf(salt: string): Tensor[] {
  const filled = (name: string, dims: readonly number[], value: number): Tensor => ({
    name,
    dims,
    values: new Float32Array(dims.reduce((product, dim) => product * dim, 1)).fill(value),
  });
  const square = [WIDTH, WIDTH];
  return [
    { name: 'token_embd.weight', dims: [WIDTH, TOKENS.length], values: places() },
    filled('blk.0.attn_norm.weight', [WIDTH], 1),
    ...['q', 'k', 'v', 'output'].map((part) => filled(`blk.0.attn_${part}.weight`, square, 0)),
    filled('blk.0.ffn_norm.weight', [WIDTH], 1),
    filled('blk.0.ffn_gate.weight', [WIDTH, FEED_FORWARD], 0),
    filled('blk.0.ffn_up.weight', [WIDTH, FEED_FORWARD], 0),
    filled('blk.0.ffn_down.weight', [FEED_FORWARD, WIDTH], 0),
    filled('output_norm.weight', [WIDTH], 1),
    { name: 'output.weight', dims: [WIDTH, TOKENS.length], values: table(salt) },
  ];
}

/** Every word has a place of its own. */
function places(): Float32Array {
  const values = new Float32Array(WIDTH * TOKENS.length);
  TOKENS.forEach((_, token) => {
    values[token * WIDTH + (token < FIRST_WORD ? ELSE : token - FIRST_WORD)] = 1;
  });
  return values;
}

/** How likely each token is after each place: a few words, now and then the end, and anything where it must. */
function table(salt: string): Float32Array {
  // The norm before it makes a one of a place into this.
  const norm = Math.sqrt(WIDTH);
  const values = new Float32Array(WIDTH * TOKENS.length).fill(-6 / norm);
  for (let place = 0; place <= ELSE; place++) {
    const bytes = createHash('sha256').update(`${salt}/${place}`).digest();
    const set = (token: number, likely: number): void => {
      values[token * WIDTH + place] = likely / norm;
    };
    for (let at = 0; at < 4; at++) set(FIRST_WORD + ((bytes[at] ?? 0) % WORDS.length), 4 - at / 4);
    set(END, place === ELSE ? -6 : 2.5);
    set(QUOTE, place === ELSE ? 1 : 2);
  }
  return values;
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, at) => at);
}

const entry = (key: string, kind: number, value: Buffer): Buffer =>
  Buffer.concat([text(key), u32(kind), value]);

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
}

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

const f32 = (values: readonly number[]): Buffer => Buffer.from(Float32Array.from(values).buffer);

const aligned = (size: number): number => Math.ceil(size / ALIGNMENT) * ALIGNMENT;
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes], aligned(bytes.length));
