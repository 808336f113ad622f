/** One row of the crash table: a job goes through brain, gateway and provider, and something dies at a step of it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverName } from '../../../src/model/gateway-wire.ts';
import { readBills } from '../../fakes/providers/ledger.ts';
import { type Running, start } from '../../flow/cli-process.ts';
import type { Ends } from '../../flow/server-process.ts';
import { PacketProxy } from './packet-proxy.ts';

export const VICTIMS = ['brain', 'gateway', 'both', 'packets'] as const;
export type Victim = (typeof VICTIMS)[number];

/** The steps at which something dies, and who stands still there until it has. */
export const STEPS = {
  intent: { holds: 'brain', point: 'effect:before-offer' },
  offer: { holds: 'brain', point: 'effect:after-offer' },
  'after-intent': { holds: 'gateway', point: 'gateway:after-intent' },
  'after-send': { holds: 'provider', point: 'received' },
  'after-upstream-id': { holds: 'gateway', point: 'gateway:after-upstream-id' },
  'first-event': { holds: 'gateway', point: 'gateway:first-event' },
  'before-result': { holds: 'gateway', point: 'gateway:before-result' },
  'after-result': { holds: 'gateway', point: 'gateway:after-result' },
  commit: { holds: 'brain', point: 'loop:after-append' },
  ack: { holds: 'brain', point: 'effect:before-ack' },
} as const;
export type Step = keyof typeof STEPS;

export interface CrashCase {
  readonly driver: ApiDriver;
  readonly step: Step;
  readonly victim: Victim;
  readonly policy: 'hold' | 'retry';
}

const KEY = 'sk-crash-table';
const HOLD = new URL('./hold.ts', import.meta.url).href;
const PROVIDER = join(import.meta.dirname, '../../fakes/providers/main.ts');
/** The drivers that call an API; a page in a browser is in test/flow/browser-seat.test.ts. */
type ApiDriver = Exclude<DriverName, 'browser'>;
const PROVIDERS: Readonly<Record<ApiDriver, readonly [string, string]>> = {
  'openai-chat': ['openai', 'chat'],
  'openai-responses': ['openai', 'responses'],
  'anthropic-messages': ['anthropic', 'messages'],
  'anthropic-batches': ['anthropic', 'batches'],
  'gemini-stream': ['gemini', 'stream'],
  'gemini-generate': ['gemini', 'generate'],
};
/** A job that nobody can settle stays like that for this long, with everything else up again. */
const HELD_MS = 3000;
const LIMIT_MS = 60_000;

/** A fake provider in a process of its own. */
export class ProviderProcess {
  readonly ledger: string;
  readonly #child: ChildProcess;
  #port = '';

  constructor(kind: string, ledger: string) {
    this.ledger = ledger;
    this.#child = spawn(process.execPath, [PROVIDER, kind, ledger, '0', KEY], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }

  async started(): Promise<this> {
    const [line] = (await once(this.#child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    this.#port = line.toString().trim();
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async order(what: string, body: object): Promise<void> {
    await fetch(`${this.url}/_control/${what}`, { method: 'POST', body: JSON.stringify(body) });
  }

  async waiting(point: string): Promise<number> {
    const state = (await (await fetch(`${this.url}/_control/state`)).json()) as {
      waiting: Record<string, number>;
    };
    return state.waiting[point] ?? 0;
  }
}

interface Server {
  readonly running: Running;
  readonly url: string;
}

export class CrashSite {
  readonly #t: Ends;
  readonly #case: CrashCase;
  readonly #folder: string;
  readonly #provider: ProviderProcess;
  readonly #proxy = new PacketProxy();
  readonly #mark: string;
  readonly id: string;
  #brain: Server | undefined;
  #gateway: Server | undefined;

  constructor(t: Ends, folder: string, provider: ProviderProcess, crashCase: CrashCase, id: string) {
    this.#t = t;
    this.#case = crashCase;
    this.#folder = folder;
    this.#provider = provider;
    this.#mark = join(folder, 'mark');
    this.id = id;
    mkdirSync(folder, { recursive: true });
    t.after(() => this.stop());
  }

  /** Runs the row; returns how the job ended, and whether a person had to decide. */
  async run(): Promise<{ readonly state: string; readonly wasHeld: boolean; readonly bills: number }> {
    const { step, policy } = this.#case;
    await this.#proxy.listen();
    await this.#startGateway(true);
    await this.#startBrain(true);
    await this.#reachStep(step, policy);
    await this.#strike();
    let job = await this.#settled();
    const wasHeld = job.state === 'stale';
    const bills = this.bills;
    if (wasHeld) {
      await this.#call('POST', `/v2/tasks/${this.id}/resolve`, { as: 'retry' });
      job = await this.#settled();
    }
    return { state: job.state, wasHeld, bills };
  }

  /** The calls for this job that the provider has accepted. */
  get bills(): number {
    return readBills(this.#provider.ledger).filter(({ prompt }) => prompt === this.id).length;
  }

  /** The attempts that the reconciliation report names as given up without knowing whether they ran. */
  async reportedRetries(): Promise<number> {
    const { reports } = (await this.#call('GET', '/control/reconcile')) as {
      reports: { backends: { attempts: { token: string; found: string }[] }[] }[];
    };
    const attempts = reports.flatMap(({ backends }) => backends.flatMap((backend) => backend.attempts));
    const isOurs = (token: string): boolean => token.startsWith(`${this.id}:`);
    return attempts.filter(({ token, found }) => found === 'retried' && isOurs(token)).length;
  }

  stop(): void {
    for (const server of [this.#brain, this.#gateway]) server?.running.child.kill('SIGKILL');
    this.#proxy.close();
  }

  async #reachStep(step: Step, policy: string): Promise<void> {
    const { holds, point } = STEPS[step];
    const waitsForEnd = step === 'commit' || step === 'ack';
    if (holds === 'provider') await this.#provider.order('hold', { point });
    if (waitsForEnd) await this.#provider.order('hold', { point: 'received' });
    else writeFileSync(`${this.#mark}.armed`, '');
    const job = { job_id: this.id, type: 'inference', model: 'm', on_unknown: policy, max_tries: 3 };
    const payload = { prompt: this.id, max_tokens: 9 };
    // A brain that is held may not answer any more.
    this.#call('POST', '/v2/tasks', { ...job, payload }).catch(() => undefined);
    if (waitsForEnd) {
      await this.#until(async () => (await this.#provider.waiting('received')) > 0);
      await this.#until(async () => (await this.job()).state === 'running');
      writeFileSync(`${this.#mark}.armed`, '');
      await this.#provider.order('release', { point: 'received' });
    }
    await this.#until(async () =>
      holds === 'provider' ? (await this.#provider.waiting(point)) > 0 : existsSync(this.#mark),
    );
  }

  /** What the row says dies, and is there again. */
  async #strike(): Promise<void> {
    const { victim, step } = this.#case;
    const { holds, point } = STEPS[step];
    const dead = { brain: [this.#brain], gateway: [this.#gateway], both: [this.#brain, this.#gateway] };
    if (victim === 'packets') this.#proxy.cut();
    else {
      for (const server of dead[victim]) {
        server?.running.child.kill('SIGKILL');
        await server?.running.ended;
      }
    }
    writeFileSync(`${this.#mark}.go`, '');
    if (holds === 'provider') await this.#provider.order('release', { point });
    if (victim === 'packets') {
      await sleep(800);
      this.#proxy.heal();
    }
    if (victim === 'gateway' || victim === 'both') await this.#startGateway(false);
    if (victim === 'brain' || victim === 'both') await this.#startBrain(false);
  }

  /** The job when it has ended, or when nobody but a person can settle it. */
  async #settled(): Promise<{ readonly state: string }> {
    let staleSince: number | undefined;
    let job = await this.job();
    await this.#until(async () => {
      job = await this.job();
      if (['succeeded', 'dead', 'cancelled'].includes(job.state)) return true;
      staleSince = job.state === 'stale' ? (staleSince ?? Date.now()) : undefined;
      return staleSince !== undefined && Date.now() - staleSince > HELD_MS;
    });
    return job;
  }

  async #startGateway(isArmed: boolean): Promise<void> {
    const [driver, mode] = PROVIDERS[this.#case.driver];
    const { url } = this.#provider;
    const seat = { name: 'seat', driver, mode, url, key_env: 'SEAT_KEY', models: ['m'] };
    const config = { gateway: { seats: [seat] } };
    const words = ['gateway', '--port', '0', '--data', join(this.#folder, 'gateway')];
    this.#gateway = await this.#start('gateway', words, config, isArmed);
    this.#proxy.targetPort = Number(new URL(this.#gateway.url).port);
  }

  async #startBrain(isArmed: boolean): Promise<void> {
    const config = {
      pool: { url: this.#proxy.url, timeout: 60 },
      backends: { demo: false },
      orchestrator: {
        recovery: { holder_lost_ms: 500, sweep_interval_ms: 200 },
        scheduler: { jit_poll_interval: 0.2 },
        retry: { base_delay_ms: 10, max_delay_ms: 100 },
      },
    };
    const words = ['up', '--port', '0', '--data', join(this.#folder, 'data')];
    this.#brain = await this.#start('brain', words, config, isArmed);
  }

  async #start(who: string, words: string[], config: object, isArmed: boolean): Promise<Server> {
    const file = join(this.#folder, `${who}.yaml`);
    writeFileSync(file, JSON.stringify(config));
    const { holds, point } = STEPS[this.#case.step];
    const env = {
      SEAT_KEY: KEY,
      NODE_OPTIONS: `--import=${HOLD}`,
      ...(isArmed && holds === who && { HOLD_POINT: point, HOLD_MARK: this.#mark }),
    };
    const running = start([...words, '--config', file], { env });
    this.#t.after(() => void running.child.kill('SIGKILL'));
    const banner = await running.saw('err', /listens on http\S+/);
    return { running, url: /listens on (http\S+)/.exec(banner)?.[1] ?? '' };
  }

  async job(): Promise<{ readonly state: string }> {
    return (await this.#call('GET', `/v2/tasks/${this.id}`)) as never;
  }

  async #call(method: string, path: string, body?: object): Promise<unknown> {
    const reply = await fetch(`${this.#brain?.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      signal: AbortSignal.timeout(10_000),
      ...(body && { body: JSON.stringify(body) }),
    });
    const answer: unknown = await reply.json();
    assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${JSON.stringify(answer)}`);
    return answer;
  }

  async #until(isMet: () => Promise<boolean>): Promise<void> {
    const end = Date.now() + LIMIT_MS;
    while (!(await isMet().catch(() => false))) {
      // The job is read only at the end: a brain that is held answers nothing.
      if (Date.now() >= end) assert.fail(`no end: ${JSON.stringify(await this.job().catch(String))}`);
      await sleep(20);
    }
  }
}
