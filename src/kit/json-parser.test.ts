import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MAX_DEPTH, MAX_KEYS, MAX_VALUES } from './depth.ts';
import { isJsonInSlices, JsonFaultError, parseInSlices } from './json-parser.ts';

interface Parsed {
  readonly value: unknown;
  readonly slices: number;
}

function parse(text: string): Parsed {
  const work = parseInSlices(text);
  for (let slices = 1; ; slices++) {
    const step = work.next();
    if (step.done) return { value: step.value, slices };
  }
}

const faultOf = (text: string): string => {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof JsonFaultError) return error.fault;
    throw error;
  }
  return 'none';
};

function expected(text: string): unknown {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return 'not JSON';
  }
}

function same(text: string): void {
  let found: unknown;
  try {
    found = { value: parse(text).value };
  } catch (error) {
    assert.ok(error instanceof JsonFaultError);
    found = error.fault;
  }
  assert.deepEqual(found, expected(text), JSON.stringify(text));
}

test('it reads what JSON.parse reads', () => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false }), fc.constantFrom(undefined, 1, '\t'), (text, space) => {
      if (text.includes('__proto__')) return;
      same(text);
      same(JSON.stringify(JSON.parse(text), undefined, space));
    }),
    { numRuns: 2000 },
  );
});

test('it refuses what JSON.parse refuses', () => {
  const piece = fc.constantFrom(
    ...['{', '}', '[', ']', ',', ':', '"', '\\', '"a"', '"a":', '1', '-', '0', '.5', 'e3', 'true', 'null'],
    ...[' ', '\n', '\u0000', '\u00a0', '\\u12', '\\u0041', '\ud800', '01', 'tru', '/', '\\"', 'Infinity'],
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => same(pieces.join(''))),
    { numRuns: 20_000 },
  );
  for (const text of [
    '',
    ' ',
    '1 2',
    '[1,]',
    '{"a":1,}',
    '{,}',
    '[1 2]',
    '{"a" 1}',
    '[}',
    '{]',
    '{"a":}',
    "'a'",
  ]) {
    assert.equal(faultOf(text), 'not JSON', text);
  }
});

test('the last of two fields with the same name counts', () => {
  same('{"a":1,"b":2,"a":3,"1":4,"0":5}');
});

test('the key __proto__ is refused however it is written', () => {
  for (const key of ['__proto__', '\\u005f_proto__', '__prot\\u006f__']) {
    assert.equal(faultOf(`{"a":[{"${key}":1}]}`), '__proto__', key);
  }
  assert.equal(faultOf('["__proto__"]'), 'none');
});

test('the bounds are those of a body that is parsed in one turn', () => {
  const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
  assert.equal(faultOf(nested(MAX_DEPTH + 1)), 'none');
  assert.equal(faultOf(nested(MAX_DEPTH + 2)), 'too deep');
  const zeros = (count: number): string => `[${Array(count).fill('0').join(',')}]`;
  assert.equal(faultOf(zeros(MAX_VALUES - 1)), 'none');
  assert.equal(faultOf(zeros(MAX_VALUES)), 'too many');
  const keys = (count: number): string =>
    `{${Array.from({ length: count }, (_, at) => `"${at}k":0`).join(',')}}`;
  assert.equal(faultOf(keys(MAX_KEYS)), 'none');
  assert.equal(faultOf(keys(MAX_KEYS + 1)), 'too many keys');
});

test('a long text is read in many slices, and refused without reading the rest of it', () => {
  const many = `[${Array(400_000).fill('{"a":1}').join(',')}]`;
  assert.ok(parse(`[${Array(100_000).fill('1').join(',')}]`).slices > 20);
  assert.equal(faultOf(many), 'too many');
  assert.ok(parse(`[${' '.repeat(2 ** 21)}]`).slices > 7, 'white space');
  assert.ok(parse(`"${'x'.repeat(2 ** 21)}"`).slices > 7, 'a string');
  assert.ok(parse(`"${'\\"'.repeat(100_000)}"`).slices > 20, 'quotes');
  assert.ok(parse('1'.repeat(2 ** 21)).slices > 7, 'a number');
  const plain = parse(`"${'x'.repeat(2 ** 21)}"`).slices;
  assert.ok(
    parse(`"${'\\'.repeat(2 ** 21)}"`).slices > plain + 6,
    'backslashes are counted in slices of their own',
  );
});

function isJson(text: string): boolean {
  const work = isJsonInSlices(text);
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

test('a text is called JSON exactly where JSON.parse takes it, whatever its size and keys', () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (text, at) => {
      assert.ok(isJson(text));
      const cut = text.slice(0, at % text.length);
      assert.equal(isJson(cut), expected(cut) !== 'not JSON', cut);
    }),
    { numRuns: 500 },
  );
  for (const text of [
    '{"__proto__":1}',
    '['.repeat(MAX_DEPTH * 10) + ']'.repeat(MAX_DEPTH * 10),
    JSON.stringify(Array.from({ length: MAX_VALUES + 10 }, () => 0)),
    JSON.stringify(Object.fromEntries(Array.from({ length: MAX_KEYS + 10 }, (_, at) => [at, at]))),
  ])
    assert.ok(isJson(text), text.slice(0, 20));
});
