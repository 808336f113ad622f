/** The text of changes in the log: one JSON line each. */
import { readCause } from '../../../model/causes.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { Change, RecordKind } from '../../../model/records.ts';
import { upcast } from '../../../model/upcast.ts';

const NEWLINE = 0x0a;

export function encodeChange(change: Change): string {
  return `${JSON.stringify([change.kind, change.id, change.after, change.cause])}\n`;
}

export function decodeChanges(payload: Buffer, count: number): Change[] {
  const changes: Change[] = [];
  let from = 0;
  while (from < payload.length) {
    const to = payload.indexOf(NEWLINE, from);
    if (to < 0) break;
    changes.push(decodeChange(payload.toString('utf8', from, to)));
    from = to + 1;
  }
  if (changes.length !== count || from !== payload.length) {
    const message = `the frame header says ${count} changes, its payload has ${changes.length}`;
    throw new OrchdError('STORE_CORRUPT', message);
  }
  return changes;
}

function decodeChange(line: string): Change {
  try {
    return readChange(line);
  } catch (error) {
    if (error instanceof OrchdError) throw error;
    throw new OrchdError('STORE_CORRUPT', 'a change cannot be decoded', {}, { cause: error });
  }
}

function readChange(line: string): Change {
  const [kind, id, after, cause] = JSON.parse(line) as [
    RecordKind,
    string,
    ({ v: number } & object) | null,
    unknown,
  ];
  return { kind, id, after: after && upcast(kind, after as never), cause: readCause(cause) } as Change;
}
