/** The entries of the streams: their fields, and what a DLQ keeps of those that cannot be used. */
import type { JobHint } from '../../core/ports/doorbell.ts';
import { cutText } from '../../kit/cut-text.ts';
import type { Command, Reply } from './client.ts';
import { DLQ, jobsPlace, PRELOADS, type StreamPlace } from './names.ts';

/** An entry as it was read; a later field of the same name counts. */
export interface Entry {
  readonly id: string;
  readonly fields: ReadonlyMap<string, string>;
}

/** Entries that the DLQ keeps at least; the oldest beyond that go. */
export const DLQ_LENGTH = 10_000;
/** A last bound on a stream of hints, which is short as long as brains can delete from it. */
export const MAX_ENTRIES = 100_000;
const MAX_QUOTED_CHARS = 1024;

/** The entries in a reply of XRANGE, XAUTOCLAIM or XREADGROUP; those that were deleted meanwhile have no fields. */
export function entriesIn(reply: Reply | undefined): Entry[] {
  if (!Array.isArray(reply)) return [];
  return (reply as readonly Reply[]).flatMap((each) => {
    if (!Array.isArray(each)) return [];
    const [id, flat] = each as [string, readonly string[] | null];
    return [{ id, fields: fieldsOf(flat ?? []) }];
  });
}

function fieldsOf(flat: readonly string[]): Map<string, string> {
  const fields = new Map<string, string>();
  for (let at = 0; at + 1 < flat.length; at += 2) fields.set(String(flat[at]), String(flat[at + 1]));
  return fields;
}

/** Something that whoever reads a stream should hear of; the token tells it apart from all others. */
export interface Hint {
  readonly token: string;
}

/** How the hints of a stream are written. */
export interface HintForm<H extends Hint> {
  readonly place: StreamPlace;
  additionOf(hint: H): Command;
  /** The token of an entry of ours; undefined for one that somebody else has made. */
  tokenIn(entry: Entry): string | undefined;
  /** Why an entry of somebody else cannot be used. */
  readonly foreign: string;
}

/** A hint whose fields are all that it says. */
export interface FieldsHint extends Hint {
  readonly fields: Fields;
}
type Fields = readonly (readonly [name: string, value: string])[];

/** Jobs for the consumers of a pool; the payload only where it is small enough. */
export function jobsForm(pool: string, payloadBytes: number): HintForm<JobHint> {
  const place = jobsPlace(pool);
  return {
    place,
    foreign: 'it has no job_id, token and type',
    additionOf({ token, jobId, type, payloadText }) {
      const isShown = payloadText !== undefined && Buffer.byteLength(payloadText) <= payloadBytes;
      const payload: Fields = isShown ? [['payload', payloadText]] : [];
      return addition(place.key, [['job_id', jobId], ['token', token], ['type', type], ...payload]);
    },
    tokenIn: ({ fields }) => (fields.has('job_id') && fields.has('type') ? fields.get('token') : undefined),
  };
}

/** Worker pools whose workers a program outside starts. An entry is the same as another one if all of its fields are. */
export const PRELOADS_FORM: HintForm<FieldsHint> = {
  place: PRELOADS,
  foreign: 'it has no pool_id, status and ordered_at',
  additionOf: ({ fields }) => addition(PRELOADS.key, fields),
  tokenIn: ({ fields }) =>
    ['pool_id', 'status', 'ordered_at'].every((name) => fields.has(name))
      ? tokenOfFields([...fields])
      : undefined,
};

export const tokenOfFields = (fields: Fields): string => JSON.stringify(fields);

const addition = (key: string, fields: Fields): Command => [
  ...['XADD', key, 'MAXLEN', '~', String(MAX_ENTRIES), '*'],
  ...fields.flat(),
];

/** Ends entries: for the group, and in the stream. */
export const endingOf = ({ key, group }: StreamPlace, ids: readonly string[]): Command[] => [
  ['XACK', key, group, ...ids],
  ['XDEL', key, ...ids],
];

export const deadLetter = (fields: Fields): Command => [
  'XADD',
  DLQ,
  'MAXLEN',
  '~',
  String(DLQ_LENGTH),
  '*',
  ...fields.flat(),
];

/** What the DLQ keeps of an entry that cannot be used: where it came from, why, and the beginning of what it says. */
export const unusable = (key: string, { id, fields }: Entry, reason: string): Command =>
  deadLetter([
    ['reason', reason],
    ['stream', key],
    ['entry_id', id],
    ['entry', quoted(fields)],
  ]);

/** An API token in an entry is for nobody else's eyes. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(['token', 'api_token']);
/** One that stands where no token belongs, because a field was left out or misspelt. */
const API_TOKEN = /orchd_[0-9a-f]{8}_[0-9a-f]+/g;
const withoutTokens = (text: string): string => text.replace(API_TOKEN, '[redacted]');

function quoted(fields: ReadonlyMap<string, string>): string {
  const shown: [string, string][] = [];
  let room = MAX_QUOTED_CHARS;
  for (const [name, value] of fields) {
    if (room <= 0) break;
    const text = SECRET_FIELDS.has(name) ? '[redacted]' : cutText(withoutTokens(value), room);
    shown.push([cutText(withoutTokens(name), room), text]);
    room -= name.length + text.length;
  }
  return JSON.stringify(Object.fromEntries(shown));
}
