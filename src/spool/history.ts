/**
 * `history.jsonl` in the folder of a job: a line for every change of its status, written right before the change. What is
 * in the file need not have come to pass: a crash may have come between the two, and an agent that was taken for dead may
 * have written its line to a folder that was not its own any more. `job.json` tells which lines count.
 */
import type { Lifecycle } from './envelope.ts';
import { isSpoolStatus, mayChangeStatus, type SpoolStatus } from './states.ts';

export interface HistoryLine {
  /** The number of the change: the `moves` of the `job.json` after it. */
  readonly n: number;
  readonly at: string;
  readonly from: SpoolStatus;
  readonly to: SpoolStatus;
  readonly actor: string;
  readonly attempt: number;
  readonly reason?: string | undefined;
}

/**
 * The changes that have come to pass, in order: from the status that the job has now, back to the first one. Lines that a
 * power cut has taken are missing.
 */
export function historyOf(
  text: string,
  { status, moves }: Pick<Lifecycle, 'status' | 'moves'>,
): HistoryLine[] {
  const lines = linesByNumber(text);
  const history: HistoryLine[] = [];
  /** The change that the next line is expected to be, and the status that it led to; undefined behind a gap. */
  let [expected, led]: [number, SpoolStatus | undefined] = [moves, status];
  // Not every number up to `moves`: that is whatever somebody has written there.
  for (const n of [...lines.keys()].filter((each) => each <= moves).sort((a, b) => b - a)) {
    if (n !== expected) led = undefined;
    const line = lines.get(n)?.findLast(({ to }) => led === undefined || to === led);
    if (line) history.unshift(line);
    [expected, led] = [n - 1, line?.from];
  }
  return history;
}

/** What is wrong with a history: no line of it leads to the status that the job has, or a change was not allowed. */
export function historyProblem(
  text: string,
  lifecycle: Pick<Lifecycle, 'status' | 'moves'>,
): string | undefined {
  const history = historyOf(text, lifecycle);
  const illegal = history.find(({ from, to }) => !mayChangeStatus(from, to));
  if (illegal) return `it has a change from ${illegal.from} to ${illegal.to}`;
  const lines = linesByNumber(text);
  const missing = [...lines.keys()].find(
    (n) => n <= lifecycle.moves && !history.some((line) => line.n === n),
  );
  return missing === undefined
    ? undefined
    : `change ${missing} leads to another status than the next one begins with`;
}

function linesByNumber(text: string): Map<number, HistoryLine[]> {
  const lines = new Map<number, HistoryLine[]>();
  for (const each of text.split('\n')) {
    const line = parsedLine(each);
    if (line) lines.set(line.n, [...(lines.get(line.n) ?? []), line]);
  }
  return lines;
}

const isNumber = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) > 0;

function parsedLine(text: string): HistoryLine | undefined {
  try {
    const value = JSON.parse(text) as Partial<HistoryLine> | null;
    const isLine = isNumber(value?.n) && isSpoolStatus(value?.from) && isSpoolStatus(value?.to);
    return isLine ? (value as HistoryLine) : undefined;
  } catch {
    return undefined;
  }
}
