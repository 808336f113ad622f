/** Runs of an agent in a process that is killed and started again on the same data. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import type { RunResult } from '../../src/agents/run.ts';
import { within } from './flow-kit.ts';

export interface ProcessPlan {
  readonly data: string;
  readonly runs: readonly { readonly id: string; readonly session?: string }[];
  /** The calls that never end. */
  readonly hold: readonly string[];
}

/** A call of the model or of a tool: `<run>.model1`, `<run>.send`. */
export interface CallLine {
  readonly call: string;
  readonly is: 'begin' | 'end' | 'kept';
}

const MAIN = join(import.meta.dirname, 'agent-process-main.ts');

export class AgentProcess {
  /** The calls of all processes so far, in order. */
  readonly calls: CallLine[] = [];
  results: Readonly<Record<string, RunResult>> | undefined;
  readonly #plan: Omit<ProcessPlan, 'hold'>;
  readonly #t: TestContext;

  constructor(t: TestContext, plan: Omit<ProcessPlan, 'hold'>) {
    this.#t = t;
    this.#plan = plan;
  }

  /** Starts the process and kills it as soon as all of these calls have begun, and the ends of those of `after` are kept. */
  async killIn(hold: readonly string[], after: readonly string[] = []): Promise<void> {
    const reached = Promise.withResolvers<void>();
    const from = this.calls.length;
    const child = this.#start(hold, () => {
      const since = this.calls.slice(from);
      const hasBegun = (call: string): boolean =>
        since.some((line) => line.call === call && line.is === 'begin');
      if (hold.every(hasBegun) && after.every((call) => this.count(call, 'kept') > 0)) reached.resolve();
    });
    await within(Promise.race([reached.promise, child.ended.then(() => assert.fail('it has ended'))]));
    child.process.kill('SIGKILL');
    await child.ended;
  }

  /** Starts the process and lets it come to its end. */
  async finish(): Promise<Readonly<Record<string, RunResult>>> {
    assert.equal(await within(this.#start([], () => undefined).ended), 0);
    assert.ok(this.results);
    return this.results;
  }

  #start(hold: readonly string[], heard: () => void): { process: ChildProcess; ended: Promise<unknown> } {
    const plan: ProcessPlan = { ...this.#plan, hold };
    const child = spawn(process.execPath, [MAIN, JSON.stringify(plan)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#t.after(() => child.kill('SIGKILL'));
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (text) => {
      const line = JSON.parse(text) as CallLine | { results: Record<string, RunResult> };
      if ('results' in line) this.results = line.results;
      else this.calls.push(line);
      heard();
    });
    const read = new Promise<void>((resolve) => lines.once('close', resolve));
    const exited = new Promise<unknown>((resolve) => child.once('exit', resolve));
    return { process: child, ended: read.then(() => exited) };
  }

  count(call: string, is: CallLine['is']): number {
    return this.calls.filter((line) => line.call === call && line.is === is).length;
  }
}
