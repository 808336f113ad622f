/** JSON texts that are legal or nearly so, and as expensive as a body of 16 MiB can be. */

const MANY = 490_000;
const BODY_BYTES = 16_000_000;

const keys = (count: number, prefix = 'key-'): string =>
  `{${Array.from({ length: count }, (_, at) => `"${prefix}${at}":"x"`).join(',')}}`;
const list = (count: number, item: (at: number) => string): string =>
  `[${Array.from({ length: count }, (_, at) => item(at)).join(',')}]`;

const LIMIT =
  '"requests_per_sec":1,"tokens_per_sec":1,"burst_requests":1,"burst_tokens":1,"concurrency":1,"token_budget":1';

export const HOSTILE = {
  'an object of 490,000 keys': () => keys(MANY),
  'an object of 19,999 keys': () => keys(19_999),
  '24 objects of 19,999 keys': () => list(24, (at) => keys(19_999, `${at}-`)),
  '1,000 objects of 480 keys': () => list(1000, (at) => keys(480, `${at}-`)),
  '245,000 objects of another key each': () => list(MANY / 2, (at) => `{"k${at}":1}`),
  '10,000 messages, the last of another form': () =>
    list(10_000, (at) => (at < 9999 ? '{"role":"user","content":"x"}' : '7')),
  '10,000 limits, the last of another form': () =>
    list(10_000, (at) => `{"scope":${at < 9999 ? `"tenant:t${at}"` : 7},${LIMIT}}`),
  '490,000 numbers': () => list(MANY, (at) => String(at / 7)),
  '490,000 texts': () => list(MANY, (at) => `"s${at}"`),
  '490,000 empty arrays': () => list(MANY, () => '[]'),
  '8,000 chains of 50 objects': () =>
    list(
      8000,
      (at) => `${Array.from({ length: 50 }, (_, level) => `{"${at}-${level}":`).join('')}1${'}'.repeat(50)}`,
    ),
  'a text of 16 MB': () => `"${'x'.repeat(BODY_BYTES)}"`,
  'a text of 5 million Chinese characters': () => `"${'漢'.repeat(BODY_BYTES / 3)}"`,
  'a text of 8 million line ends': () => `"${'\\n'.repeat(BODY_BYTES / 2)}"`,
  'a text of 8 million quotes': () => `"${'\\"'.repeat(BODY_BYTES / 2)}"`,
  'a text of 16 million backslashes': () => `"${'\\'.repeat(BODY_BYTES)}"`,
  'a text of 2.6 million escapes': () => `"${'\\u0001'.repeat(BODY_BYTES / 6)}"`,
  '16 MB of spaces': () => `[${' '.repeat(BODY_BYTES)}]`,
  'a number of 16 million digits': () => '1'.repeat(BODY_BYTES),
  'a name of 16 MB': () => `{"${'n'.repeat(BODY_BYTES)}":1}`,
  'brackets 8 million deep': () => `${'['.repeat(BODY_BYTES / 2)}${']'.repeat(BODY_BYTES / 2)}`,
  'not JSON at its end': () => `[${'"x",'.repeat(400_000)}x]`,
} satisfies Record<string, () => string>;

export type HostileName = keyof typeof HOSTILE;

/** The body of a request: a hostile text as a whole, or as one field among valid ones. */
export interface HostileBody {
  readonly name: HostileName;
  readonly field: string | undefined;
  /** The other fields. */
  readonly rest: Readonly<Record<string, unknown>>;
  /** The body is an array of this object. */
  readonly isBulk?: boolean;
}

export function bodyText({ name, field, rest, isBulk }: HostileBody): string {
  const hostile = HOSTILE[name]();
  if (field === undefined) return hostile;
  const { [field]: _, ...others } = rest;
  const members = Object.entries(others).map(
    ([key, value]) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`,
  );
  const object = `{${JSON.stringify(field)}:${hostile}${members.join('')}}`;
  return isBulk ? `[${object}]` : object;
}
