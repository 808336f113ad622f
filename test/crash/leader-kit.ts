/** Nodes on one database, one of which leads until it is killed in the middle of a run, and the client of that run. */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { RunView } from '../../src/model/http/runs.ts';
import type { Sql } from '../../src/stores/mariadb/sql.ts';
import type { DeathOrder } from './leader-node.ts';
import { callsOf, REPLY } from './noted-tools.ts';

const SCRIPT = join(import.meta.dirname, 'leader-node.ts');
/** Two are enough for a change of leader; the third one starts while a run goes on. */
const NODES = 3;
const POLL_MS = 20;

interface Node {
  readonly child: ChildProcess;
  readonly url: string;
}

const isAlive = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;

export class LedNodes {
  readonly #folder: string;
  readonly #database: string;
  readonly #sql: Sql | undefined;
  #nodes: Promise<Node>[] = [];
  readonly #started: Node[] = [];
  #made = 0;
  #runs = 0;
  readonly #redis: readonly string[];

  /** `sql` looks into the audit of runs; `redis` is the address of a server that the nodes use, if they are to use one. */
  constructor(folder: string, database: string, { sql, redis }: { sql?: Sql; redis?: string } = {}) {
    this.#folder = folder;
    this.#database = database;
    this.#sql = sql;
    this.#redis = redis === undefined ? [] : [redis];
  }

  /** The port of a node that lives, whether or not it leads. */
  get livePort(): number | undefined {
    const node = this.#started.find(({ child }) => isAlive(child));
    return node && Number(new URL(node.url).port);
  }

  /** Waits until the node that leads has died where the order says, while others keep it busy. */
  async dies(order: DeathOrder): Promise<void> {
    const { child } = await this.#leader();
    const ended = once(child, 'exit');
    child.send(order);
    await ended;
  }

  get #ledger(): string {
    return join(this.#folder, 'tools.jsonl');
  }

  /** Starts nodes in place of those that have died. */
  async fill(): Promise<void> {
    const nodes = await Promise.all(this.#nodes.map(async (node) => ({ node, child: (await node).child })));
    this.#nodes = nodes.filter(({ child }) => isAlive(child)).map(({ node }) => node);
    while (this.#nodes.length < NODES) this.#nodes.push(this.#start());
  }

  async #start(): Promise<Node> {
    const child = fork(SCRIPT, [`node-${++this.#made}`, this.#folder, this.#database, ...this.#redis], {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const failed = once(child, 'exit').then(() => Promise.reject(new Error('a node did not start')));
    const [{ url }] = (await Promise.race([once(child, 'message'), failed])) as [{ url: string }];
    // Its end is expected from now on.
    failed.catch(() => undefined);
    const node = { child, url };
    this.#started.push(node);
    return node;
  }

  async stop(): Promise<void> {
    for (const node of this.#nodes) {
      const { child } = await node;
      if (!isAlive(child)) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  }

  async #leader(): Promise<Node> {
    for (;;) {
      for (const node of this.#started) {
        if (isAlive(node.child) && (await ask<{ is_leader: boolean }>(node, '/leader'))?.is_leader)
          return node;
      }
      await pause(POLL_MS);
    }
  }

  /**
   * Plays a run whose leader dies where the order says. Returns what is wrong, and whether the leader has died at all.
   * The client asks a node that does not lead, which forwards to whichever does.
   */
  async play(order: DeathOrder): Promise<{ readonly died: boolean; readonly problems: readonly string[] }> {
    const run = `run-${++this.#runs}`;
    const leader = await this.#leader();
    leader.child.send(order);
    await once(leader.child, 'message');
    const others = (await Promise.all(this.#nodes)).filter((node) => node !== leader);
    /** Undefined where nobody has answered well: whoever asks asks again. */
    const request = async <T>(path: string, body?: object): Promise<T | undefined> => {
      const via = others.find(({ child }) => isAlive(child));
      assert.ok(via, 'a node is left');
      return ask(via, path, body);
    };
    while (!(await request('/v2/agents/helper/runs', { run_id: run, input: 'do both' })))
      await pause(POLL_MS);
    let decided = 0;
    let view: RunView | undefined;
    for (;;) {
      view = await request<RunView>(`/v2/runs/${run}`);
      if (view?.ended_at !== undefined) break;
      if (view?.state === 'needs_decision') decided += await this.#decide(request, run);
      await pause(POLL_MS);
    }
    const died = !isAlive(leader.child);
    if (!died) {
      leader.child.send({ point: 'none', pass: 1 });
      await once(leader.child, 'message');
    }
    return { died, problems: await this.#problems(run, view, decided, died) };
  }

  /** Settles the calls that are held. Returns how many. */
  async #decide(request: Request, run: string): Promise<number> {
    const held = await request<{ jobs: { job_id: string }[] }>(`/v2/tasks?root=${run}&state=stale`);
    let settled = 0;
    for (const { job_id: id } of held?.jobs ?? []) {
      const job = await request<{ payload: { tool: string } }>(`/v2/tasks/${id}`);
      assert.equal(job?.payload.tool, 'send', `"${id}" is held, and may be repeated`);
      const wasBegun = callsOf(this.#ledger, 'send', run).begun > 0;
      const as = wasBegun ? { as: 'succeeded', result: { ok: true, text: 'send is done' } } : { as: 'retry' };
      if (await request(`/v2/tasks/${id}/resolve`, as)) settled++;
    }
    return settled;
  }

  async #problems(
    run: string,
    view: RunView | undefined,
    decided: number,
    died: boolean,
  ): Promise<readonly string[]> {
    const found: string[] = [];
    const send = callsOf(this.#ledger, 'send', run);
    const look = callsOf(this.#ledger, 'look', run);
    if (send.begun !== 1) found.push(`"send" was called ${send.begun} times`);
    if (send.ended === 0 && decided === 0) found.push('"send" was cut off, and nobody was asked');
    if (look.begun < 1 || look.begun > (died ? 2 : 1)) found.push(`"look" was called ${look.begun} times`);
    if (!died && decided > 0) found.push('a decision was needed although no node had died');
    if (view?.state !== 'completed' || view.reply !== REPLY)
      found.push(`the run is ${view?.state}, and says ${JSON.stringify(view?.reply ?? view?.error)}`);
    found.push(...(await this.#repeated(run)));
    return found.length === 0 ? found : [...found, ...(await this.#trail(run))];
  }

  /** What happened to the jobs of a run, for whoever looks for the reason of a problem. */
  async #trail(run: string): Promise<string[]> {
    return (await this.#rows(`${run}%`)).map(
      ({ subject, type, epoch }) => `epoch ${epoch}: ${subject} ${type}`,
    );
  }

  async #rows(subjects: string): Promise<{ subject: string; type: string; epoch: number }[]> {
    assert.ok(this.#sql);
    return this.#sql.query(
      'SELECT subject, event_type AS type, epoch FROM orchestrator_audit WHERE subject LIKE ? ORDER BY id',
      [subjects],
    );
  }

  /** A job is begun no more once its end is in the database, whoever leads. */
  async #repeated(run: string): Promise<string[]> {
    const rows = await this.#rows(`${run}.%`);
    const ended = new Set<string>();
    const found: string[] = [];
    for (const { subject, type } of rows) {
      if (type === 'job:succeeded') ended.add(subject);
      else if (type.startsWith('job:claim') && ended.has(subject))
        found.push(`${subject} was begun after its end`);
    }
    if (ended.size === 0) found.push('the audit has no end of a call');
    return found;
  }
}

type Request = <T>(path: string, body?: object) => Promise<T | undefined>;

async function ask<T>({ url }: Node, path: string, body?: object): Promise<T | undefined> {
  try {
    const response = await fetch(url + path, {
      ...(body && {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
      signal: AbortSignal.timeout(60_000),
    });
    return response.ok ? ((await response.json()) as T) : undefined;
  } catch {
    return undefined;
  }
}
