/**
 * Two consumers on one pool. One keeps what it does in a file, and its successor goes on under the same registration; the
 * other one is a stranger after each death. Both note in a ledger what they begin and end, before and after.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { isTerminal } from '../../src/model/states.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { Consumers } from '../../src/runtime/consumers/consumers.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { AppendFile, readLines } from './append-file.ts';
import type { Folders } from './folders.ts';
import type { Played, World } from './world.ts';

const POOL = 'crash';
const JOBS = 8;
const TTL_MS = 60_000;
const POLL_MS = 10;
const WORK_MS = 20;
const KEEPER_ID = 'a'.repeat(32);

type Line =
  | { readonly is: 'start' | 'end'; readonly token: string; readonly by: string }
  | { readonly is: 'acknowledged'; readonly token: string; readonly by: string };

const ledgerOf = ({ ledger }: Folders): string => join(ledger, 'consumed.jsonl');

const jobOf = (token: string): string => token.slice(0, token.lastIndexOf(':'));

/** One process of a consumer. */
class Consumer {
  readonly #name: string;
  readonly #id: string;
  readonly #consumers: Consumers;
  readonly #played: Played;
  readonly #ledger: AppendFile;
  #claims: number;
  readonly #held = new Set<string>();
  /** Ended, and not acknowledged. */
  readonly #ended = new Set<string>();

  constructor(name: string, id: string, brain: Orchestrator, played: Played) {
    this.#name = name;
    this.#id = id;
    this.#consumers = brain.consumers;
    this.#played = played;
    this.#claims = id === KEEPER_ID ? this.#takeUp(readLines<Line>(ledgerOf(played.folders))) : 0;
    this.#ledger = new AppendFile(ledgerOf(played.folders));
  }

  /** What it had ended is reported by this process; what it had begun is done anew, by the brain's order alone. */
  #takeUp(lines: readonly Line[]): number {
    const own = lines.filter(({ by }) => by === this.#name);
    for (const { is, token } of own) {
      if (is === 'start') this.#held.add(token);
      if (is === 'end') this.#ended.add(token);
      if (is !== 'start') this.#held.delete(token);
      if (is === 'acknowledged') this.#ended.delete(token);
    }
    // No claim of an earlier process has this number.
    return own.length;
  }

  /** Works until no job is left. */
  async work(isOver: () => Promise<boolean>): Promise<void> {
    const name = `${this.#name}-${this.#id.slice(-12)}`;
    const body = {
      pool: POOL,
      name,
      slots: 3,
      types: ['pulled'],
      lease_ttl_ms: TTL_MS,
      consumer_id: this.#id,
    };
    await this.#consumers.register(body);
    const interrupted = [...this.#held];
    await this.#report(
      interrupted.map((token) => ({ token, ok: false, error: { message: 'died', retriable: true } })),
    );
    this.#held.clear();
    while (!(await isOver())) {
      await this.#consumers.heartbeat(this.#id, {
        held: [...this.#held, ...this.#ended],
        claimed: this.#claims,
      });
      await this.#reportEnded();
      await this.#claim();
      await this.#played.sleep(POLL_MS);
    }
  }

  async #claim(): Promise<void> {
    const body = { claim: ++this.#claims, max: 2, wait_ms: 100 };
    const { jobs } = JSON.parse(await this.#consumers.claim(this.#id, body, () => undefined)) as {
      jobs: { token: string }[];
    };
    for (const { token } of jobs) {
      this.#note({ is: 'start', token, by: this.#name });
      this.#held.add(token);
    }
    await this.#played.sleep(WORK_MS);
    for (const { token } of jobs) {
      this.#note({ is: 'end', token, by: this.#name });
      this.#held.delete(token);
      this.#ended.add(token);
    }
    await this.#reportEnded();
  }

  #reportEnded(): Promise<void> {
    return this.#report([...this.#ended].map((token) => ({ token, ok: true, result: { ran: token } })));
  }

  async #report(results: Parameters<Consumers['results']>[1]['results']): Promise<void> {
    if (results.length === 0) return;
    await this.#consumers.results(this.#id, { results });
    for (const { token } of results) {
      this.#note({ is: 'acknowledged', token, by: this.#name });
      this.#ended.delete(token);
    }
  }

  #note(line: Line): void {
    this.#ledger.add(line);
  }
}

async function play(brain: Orchestrator, played: Played): Promise<void> {
  const jobs = Array.from({ length: JOBS }, (_, n): SubmitRequest => {
    const payload = { n, text: 'x'.repeat(n % 5 === 0 ? 6000 : 10) };
    return {
      job_id: `p${n}`,
      type: 'pulled',
      backend: 'consumers',
      payload,
      wait_for_backend: true,
      max_tries: 9,
    } as SubmitRequest;
  });
  for (const job of jobs) await brain.submit(job);
  const isOver = async (): Promise<boolean> => {
    const states = await Promise.all(jobs.map(async ({ job_id: id }) => (await brain.get(id ?? '')).state));
    return states.every((state) => isTerminal(state));
  };
  const stranger = brain.reads.epoch?.toString(16).padStart(32, 'b') ?? '';
  await Promise.all([
    new Consumer('keeper', KEEPER_ID, brain, played).work(isOver),
    new Consumer('stranger', stranger, brain, played).work(isOver),
  ]);
}

async function problems(brain: Orchestrator, folders: Folders): Promise<string[]> {
  const lines = readLines<Line>(ledgerOf(folders));
  const found: string[] = [];
  const starts = lines.filter(({ is }) => is === 'start').map(({ token }) => token);
  for (const token of starts)
    if (starts.indexOf(token) !== starts.lastIndexOf(token)) found.push(`${token} was begun twice`);
  for (const [at, line] of lines.entries()) {
    if (line.is !== 'end' || line.by !== 'keeper') continue;
    const again = lines
      .slice(at)
      .find(({ is, token }) => is === 'start' && jobOf(token) === jobOf(line.token));
    if (again) found.push(`${again.token} was begun after ${line.token} had ended`);
  }
  for (let n = 0; n < JOBS; n++) found.push(...(await jobProblems(brain, `p${n}`, lines)));
  return found;
}

async function jobProblems(brain: Orchestrator, id: string, lines: readonly Line[]): Promise<string[]> {
  const { state, result, attempts } = await brain.getResult(id);
  if (state !== 'succeeded') return [`"${id}" is ${state}`];
  const { ran } = result as { ran: string };
  const hasRun = lines.some(({ is, token }) => is === 'end' && token === ran);
  const last = `${id}:${attempts.at(-1)?.attempt}`;
  return hasRun && ran === last ? [] : [`"${id}" has the result of ${ran}, its last attempt is ${last}`];
}

export const consumers: World = {
  options: () => ({}),
  play,
  done: (folders) =>
    fs.existsSync(ledgerOf(folders))
      ? readLines<Line>(ledgerOf(folders)).filter(({ is }) => is === 'start').length
      : 0,
  atLeast: JOBS,
  everyTime: ['hint:before-publish', 'claim:before-answer', 'results:before-answer'],
  diesOnlyThere: true,
  problems,
};
