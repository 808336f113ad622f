/**
 * The lines of a checkpoint part, one per job or other record. The fields that a merge needs for an unchanged job stand
 * before the JSON, so that most lines are copied without being parsed. The id follows the tag directly.
 *
 *   L|E  uid TAB seq TAB json      a live job; a job that has ended but was not in the history yet
 *   F    id  TAB 0   TAB json      an entry of the failure cache; its id is a JSON string, since keys are any text
 *   B    id  TAB 0   TAB json      the brain
 *   H    id  TAB 0   TAB json      a held lease
 *   K    id  TAB 0   TAB json      a record of the SMALL_KINDS; its id is `<kind>/<name>` as a JSON string
 *                                  (docs/decisions/0014)
 */

import type { JobBundle, LooseRecord } from '../../../core/ports/store.ts';
import { OrchdError } from '../../../model/errors.ts';
import {
  type AskRecord,
  type AttemptRecord,
  BRAIN_ID,
  isSmallKind,
  type JobRecord,
} from '../../../model/records.ts';
import { upcast } from '../../../model/upcast.ts';
import { isEnded } from '../../records.ts';

export type LineTag = 'L' | 'E' | 'F' | 'B' | 'H' | 'K';

export interface Line {
  readonly tag: LineTag;
  readonly id: string;
  readonly seq: number;
  readonly json: string;
}

/** The ids of these records are free text, so they are written as JSON strings. */
const isQuoted = (tag: LineTag): boolean => tag === 'F' || tag === 'K';

export function writeLine(tag: LineTag, id: string, seq: number, value: unknown): string {
  return `${tag}${isQuoted(tag) ? JSON.stringify(id) : id}\t${seq}\t${JSON.stringify(value)}\n`;
}

export function bundleLine(bundle: JobBundle): string {
  const { ask, job, attempts } = bundle;
  return writeLine(isEnded(bundle) ? 'E' : 'L', bundle.uid, bundle.seq, { ask, job, attempts });
}

/** Parses a line, with or without its line feed. */
export function readLine(text: string): Line {
  const idEnd = text.indexOf('\t');
  const seqEnd = text.indexOf('\t', idEnd + 1);
  const tag = text[0] as LineTag;
  const id = text.slice(1, idEnd);
  return {
    tag,
    id: isQuoted(tag) ? (JSON.parse(id) as string) : id,
    seq: Number(text.slice(idEnd + 1, seqEnd)),
    json: text.slice(seqEnd + 1),
  };
}

export function readBundle(line: Line): JobBundle {
  const stored = JSON.parse(line.json) as { ask: AskRecord; job: JobRecord; attempts: AttemptRecord[] };
  return {
    uid: line.id,
    seq: line.seq,
    ask: upcast('ask', stored.ask as never),
    job: upcast('job', stored.job as never),
    attempts: stored.attempts.map((attempt) => upcast('attempt', attempt as never)),
  };
}

/** Parses the record of a line that holds no job. */
export function readLoose({ tag, id, json }: Line): LooseRecord {
  const stored = JSON.parse(json);
  if (tag === 'F') return { kind: 'failure', id, after: upcast('failure', stored) };
  if (tag === 'H') return { kind: 'lease', id, after: upcast('lease', stored) };
  if (tag === 'B') return { kind: 'brain', id: BRAIN_ID, after: upcast('brain', stored) };
  const at = id.indexOf('/');
  const kind = id.slice(0, at);
  if (!isSmallKind(kind)) {
    throw new OrchdError('STORE_TOO_NEW', `a record of kind "${kind}" is not known to this version of orchd`);
  }
  return { kind, id: id.slice(at + 1), after: upcast(kind, stored) } as LooseRecord;
}

/** The parsed records of a checkpoint. */
export interface CheckpointContents {
  readonly bundles: JobBundle[];
  readonly records: LooseRecord[];
}

/** Parses all lines of a part into `into`; returns their number. */
export function readLines(part: Buffer, into: CheckpointContents): number {
  let count = 0;
  for (const text of linesOf(part)) {
    const line = readLine(text);
    if (line.tag === 'L' || line.tag === 'E') into.bundles.push(readBundle(line));
    else into.records.push(readLoose(line));
    count++;
  }
  return count;
}

/** The lines of a part, one string each. */
export function* linesOf(part: Buffer): Generator<string> {
  let from = 0;
  while (from < part.length) {
    const to = part.indexOf(10, from);
    yield part.toString('utf8', from, to < 0 ? part.length : to);
    if (to < 0) return;
    from = to + 1;
  }
}
