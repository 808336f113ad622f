import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAILED_FOR_NOW, STOPPED, SUCCESS, submission, TURNED_AWAY } from '../../test/fakes/engine-kit.ts';
import { WatchedPools } from '../../test/fakes/watched-pools.ts';
import type { Outcome, Waits } from '../core/ports/backend.ts';
import { createLogger } from '../kit/logger.ts';
import { RunTally } from './run-tally.ts';
import { RunTelemetry } from './run-telemetry.ts';

const CALL = { agent: 'clerk', event: 'llm_call', model_role: 'primary' };
const USED: Outcome = {
  ok: true,
  result: '"hello"',
  usage: { input: 7, cacheRead: 1, cacheWrite: 0, output: 2, reasoning: 0, decodeMs: 1 },
};

/** A run `r` whose first call `r.1` is to be made, and what is told of them. */
class Told extends WatchedPools {
  readonly tally = new RunTally();
  #lines: Record<string, unknown>[] = [];

  constructor() {
    super();
    this.backend('b', { slots: 9 });
    this.backend('runs', { slots: 9, types: ['agent'] });
    this.listen();
    this.submit('r', { type: 'agent' });
    this.accept('r');
    this.now += 3;
  }

  /** Another brain, which has recovered what is durable. */
  listen(): void {
    const write = (line: string): void => void this.#lines.push(JSON.parse(line));
    this.watch(new RunTelemetry(createLogger({ write, now: () => this.now }), this.tally));
  }

  calls(tags: Record<string, string> = CALL): void {
    const children = [submission('r.1', { parent_id: 'r', tags })];
    const waits: Waits = { ok: 'waits', state: 'null', children, needs: 'all', label: 'clerk/init,llm_call' };
    this.end('r', waits);
  }

  /** What was told since the last look. */
  get lines(): string[] {
    const lines = this.#lines;
    this.#lines = [];
    return lines.map(({ message, job_id, from, to, duration_ms, tokens_used, outcome }) =>
      [message, job_id, from, to, duration_ms, tokens_used, outcome]
        .filter((word) => word !== undefined)
        .join(' '),
    );
  }
}

test('[ADR-8] a step is told when its attempt is accepted and when it ends, with its time and tokens', () => {
  const kit = new Told();
  kit.calls();
  assert.deepEqual(kit.lines, ['state_transition r init llm_call 3']);
  kit.accept('r.1');
  assert.deepEqual(kit.lines, ['step_started r.1']);
  kit.now += 40;
  kit.end('r.1', USED);
  assert.deepEqual(kit.lines, ['step_completed r.1 40 10 succeeded']);
  kit.accept('r');
  kit.end('r', { ...SUCCESS, label: 'clerk/llm_call,synthesis,completed' } as Outcome);
  assert.deepEqual(kit.lines, [
    'state_transition r llm_call synthesis 0',
    'step_started r',
    'step_completed r 0 succeeded',
    'state_transition r synthesis completed 0',
  ]);
});

test('a decision takes as long as it took, also where its acceptance was not recorded before its end', () => {
  const kit = new Told();
  kit.calls();
  kit.accept('r.1');
  kit.end('r.1', USED);
  kit.lines;
  const acceptedAt = kit.now + 2;
  kit.now += 9;
  const outcome = { ...SUCCESS, label: 'clerk/llm_call,completed' } as Outcome;
  kit.step({ type: 'outcome', token: kit.token('r'), outcome, acceptedAt });
  assert.deepEqual(kit.lines, ['state_transition r llm_call completed 7']);
});

test('another brain tells nothing again of what was begun or has ended before', () => {
  const kit = new Told();
  kit.calls();
  kit.accept('r.1');
  assert.equal(kit.lines.length, 2);
  kit.listen();
  kit.now += 5;
  kit.lose('r.1');
  kit.found('r.1', { is: 'running' });
  assert.deepEqual(kit.lines, []);
  kit.end('r.1', USED);
  assert.deepEqual(kit.lines, ['step_completed r.1 5 10 succeeded']);
});

test('an attempt that has not run is no step; each that has run is one', () => {
  const kit = new Told();
  kit.calls();
  kit.lines;
  kit.accept('r.1');
  kit.lines;
  kit.end('r.1', FAILED_FOR_NOW);
  assert.deepEqual(kit.lines, ['step_completed r.1 0 failed']);
  kit.pass(1_000_000);
  kit.end('r.1', TURNED_AWAY);
  assert.deepEqual(kit.lines, []);
  kit.pass(1_000_000);
  // The outcome comes before the acceptance.
  kit.end('r.1', USED);
  assert.deepEqual(kit.lines, ['step_started r.1', 'step_completed r.1 0 10 succeeded']);
});

test('what a run decides after it was cancelled did not happen', () => {
  const kit = new Told();
  kit.cancel('r');
  kit.calls();
  assert.deepEqual(kit.lines, ['state_transition r init cancelled']);
  assert.equal(kit.tally.ended.cancelled, 1);
});

test('a run that is cancelled while it waits was in the phase that it had reached', () => {
  const kit = new Told();
  kit.calls();
  kit.accept('r.1');
  kit.lines;
  kit.cancel('r');
  kit.end('r.1', STOPPED);
  const lines = kit.lines;
  assert.ok(lines.includes('state_transition r llm_call cancelled'), lines.join('\n'));
  assert.ok(lines.includes('step_completed r.1 0 cancelled'), lines.join('\n'));
});

test('other jobs, and tags that no run writes, are left out', () => {
  const kit = new Told();
  kit.submit('plain', { tags: CALL });
  kit.accept('plain');
  kit.end('plain', USED);
  kit.calls({ agent: 'clerk', event: 'hunter2' });
  kit.accept('r.1');
  kit.end('r.1', USED);
  assert.deepEqual(kit.lines, ['state_transition r init llm_call 3']);
  const other = new Told();
  other.calls({ ...CALL, model_role: 'hunter2', tool: 'a tool of hunter2' });
  other.accept('r.1');
  assert.deepEqual([...other.tally.steps.values()], []);
  other.end('r.1', USED);
  assert.deepEqual([...other.tally.steps.keys()], ['llm_call  succeeded']);
});
