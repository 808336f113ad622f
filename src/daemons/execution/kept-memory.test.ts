import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultyDisk } from '../../../test/fakes/faulty-disk.ts';
import type { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import type { Env, Timers } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import { createLogger } from '../../kit/logger.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { Executions } from './executions.ts';
import { readInferenceRequest } from './inference-request.ts';
import { KeptEpochs } from './kept-epochs.ts';
import { KEPT_FILES } from './kept-folder.ts';
import { KeptMemory } from './kept-memory.ts';

const FOLDER = '/kept';
const FILE = join(FOLDER, KEPT_FILES.records);
const CALL = { seat: 's', model: 'm', tag: 't', timeoutMs: 1000 };
const who = { owner: 'me', epoch: 1 };

/** One process of an executor, whose engine ends by order. Timers run at the end of the turn; long ones by order. */
class Kit {
  readonly faulty: FaultyDisk;
  readonly kept: KeptMemory;
  readonly executions: Executions;
  readonly runs: PromiseWithResolvers<ExecutionResult>[] = [];
  readonly lines: string[];
  /** What waits for longer than a minute. */
  later: (() => void)[] = [];
  /** Short timers wait for `wake`. */
  isSlow = false;
  #sleeping: (() => void)[] = [];

  private constructor(faulty: FaultyDisk, kept: KeptMemory, env: Env, lines: string[]) {
    this.faulty = faulty;
    this.kept = kept;
    this.lines = lines;
    this.executions = new Executions({
      env,
      logger: createLogger({ write: () => undefined, now: () => 0 }),
      engine: {
        run: () => {
          const run = Promise.withResolvers<ExecutionResult>();
          this.runs.push(run);
          return run.promise;
        },
      },
      memory: kept.memory,
      modelRef: () => 'm',
      maxLogBytes: 100_000,
      ledger: () => undefined,
    });
    this.executions.open({ slots: 100 });
  }

  static async open(memory?: MemoryDisk): Promise<Kit> {
    const faulty = new FaultyDisk(memory);
    const lines: string[] = [];
    const later: (() => void)[] = [];
    let kit: Kit | undefined;
    const after: Timers['after'] = (ms, run) => {
      if (ms <= 60_000 && kit?.isSlow) {
        kit.#sleeping.push(run);
        return () => undefined;
      }
      if (ms <= 60_000) return clearing(setImmediate(run));
      later.push(run);
      return () => undefined;
    };
    const env: Env = { ...realEnv(), disk: faulty.disk, timers: { after, soon: setImmediate } };
    const logger = createLogger({ write: (line) => lines.push(line), now: () => 0 });
    const kept = await KeptMemory.open({
      env,
      logger,
      folder: FOLDER,
      queueOwner: 'queue',
      maxLogBytes: 100_000,
    });
    kit = new Kit(faulty, kept, env, lines);
    kit.later = later;
    return kit;
  }

  /** Runs the short timers that wait. */
  wake(): void {
    for (const run of this.#sleeping.splice(0)) run();
  }

  /** What the next process finds, if this one dies now. */
  next(): Promise<Kit> {
    return Kit.open(this.faulty.memory.copy());
  }

  begin(token: string) {
    const request = readInferenceRequest({ job_id: 'job', prompt: 'x' });
    return this.executions.begin({ who, token, registry: undefined, hash: 'h', request, call: CALL });
  }

  async begun(token: string) {
    const execution = this.begin(token);
    await this.kept.memory.pending('me', token);
    await turn();
    return execution;
  }

  outcome(token: string): unknown {
    return this.kept.memory.readable('me', token)?.outcome?.ok;
  }

  state(token: string): string | undefined {
    const record = this.kept.memory.find('me', token);
    if (record?.is !== 'execution') return record?.is;
    return record.execution.outcome ? 'ended' : 'running';
  }
}

const clearing = (handle: NodeJS.Immediate) => () => clearImmediate(handle);

async function turn(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
}

test('the engine is called, and the offer answered, once the token is durable', async () => {
  const kit = await Kit.open();
  kit.faulty.held = Promise.withResolvers();
  kit.begin('a');
  await turn();
  let isAnswered = false;
  void kit.kept.memory.pending('me', 'a')?.then(() => {
    isAnswered = true;
  });
  await turn();
  assert.deepEqual([kit.runs.length, isAnswered], [0, false]);
  kit.faulty.held.resolve();
  await turn();
  assert.deepEqual([kit.runs.length, isAnswered], [1, true]);
});

test('a result is told once it is durable', async () => {
  const kit = await Kit.open();
  const execution = await kit.begun('a');
  kit.faulty.held = Promise.withResolvers();
  kit.runs[0]?.resolve({ text: 'x' });
  await turn();
  assert.deepEqual([execution.outcome, execution.log.closed], [undefined, false]);
  kit.faulty.held.resolve();
  await turn();
  assert.deepEqual([execution.outcome?.ok, execution.log.closed], [true, true]);
});

test('what was said is gone from the disk some time after its acknowledgement', async () => {
  const kit = await Kit.open();
  await kit.begun('a');
  await kit.begun('b');
  kit.runs[0]?.resolve({ text: 'a secret' });
  kit.runs[1]?.resolve({ text: 'another' });
  await turn();
  kit.executions.acknowledge(who, 'a');
  await turn();
  const text = (): string => String(kit.faulty.memory.files.get(FILE));
  assert.match(text(), /a secret/);
  for (const run of kit.later.splice(0)) run();
  await turn();
  assert.doesNotMatch(text(), /a secret/);
  assert.match(text(), /another/);
  assert.deepEqual(
    [...kit.faulty.memory.files.keys()].filter((path) => path.endsWith('.tmp')),
    [],
  );
  const next = await kit.next();
  assert.deepEqual([next.state('a'), next.state('b')], ['forgotten', 'ended']);
});

test('what is erased is read by nobody, and is gone from the disk soon, also of a process that dies', async (t) => {
  const kit = await Kit.open();
  t.after(() => kit.kept.close());
  await kit.begun('a');
  await kit.begun('b');
  await kit.begun('c');
  kit.runs[0]?.resolve({ text: 'a secret' });
  kit.runs[1]?.reject(new OrchdError('EXECUTION_FAILED', 'it quotes a secret'));
  kit.runs[2]?.resolve({ text: 'another' });
  await turn();
  const text = (of: Kit): string => String(of.faulty.memory.files.get(FILE));
  kit.executions.acknowledge(who, 'b');
  await turn();
  // Where the timers of seconds do not run, the order alone is durable.
  kit.isSlow = true;
  for (const token of ['a', 'b']) {
    await kit.executions.erase(who, token);
    assert.equal(kit.kept.memory.readable('me', token), undefined);
  }
  const next = await kit.next();
  assert.doesNotMatch(text(next), /secret/, 'the next process begins without it');
  assert.deepEqual(
    ['a', 'b', 'c'].map((token) => next.state(token)),
    ['forgotten', 'forgotten', 'ended'],
  );
  assert.match(text(kit), /a secret/);
  kit.faulty.maxFileBytes = 100;
  kit.wake();
  await turn();
  assert.match(text(kit), /a secret/, 'there is no room for the new file yet');
  kit.faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  kit.wake();
  await turn();
  assert.doesNotMatch(text(kit), /secret/);
  assert.match(text(kit), /another/);
  assert.throws(() => kit.begin('a'), { code: 'UNKNOWN_OUTCOME' });
});

test('an erasure that cannot be written is not promised', async (t) => {
  const kit = await Kit.open();
  t.after(() => kit.kept.close());
  await kit.begun('a');
  await kit.begun('b');
  kit.runs[0]?.resolve({ text: 'x' });
  await turn();
  kit.faulty.maxFileBytes = 0;
  await assert.rejects(kit.executions.erase(who, 'a'), { code: 'WORKER_BUSY' });
  await assert.rejects(kit.executions.erase(who, 'b'), { code: 'ILLEGAL_STATE' });
});

test('no request waits for the flush of an acknowledgement, which is durable soon, or when the process ends', async () => {
  const kit = await Kit.open();
  const end = async (token: string) => {
    await kit.begun(token);
    kit.runs.at(-1)?.resolve({ text: 'x' });
    await turn();
  };
  await end('a');
  const { syncs } = kit.faulty;
  kit.executions.acknowledge(who, 'a');
  await kit.begun('b');
  assert.equal(kit.faulty.syncs, syncs + 1);

  await end('c');
  kit.executions.acknowledge(who, 'c');
  await turn();
  const afterTimer = await kit.next();
  await end('d');
  kit.executions.acknowledge(who, 'd');
  await kit.kept.close();
  const afterClose = await kit.next();
  const states = (of: Kit) => ['a', 'b', 'c', 'd'].map((token) => of.state(token));
  assert.deepEqual(states(afterTimer), ['forgotten', 'running', 'forgotten', undefined]);
  assert.deepEqual(states(afterClose), ['forgotten', 'running', 'forgotten', 'forgotten']);
});

test('the next process knows what was begun, what has ended and what was killed', async () => {
  const first = await Kit.open();
  for (const token of ['runs', 'ended', 'failed', 'acked']) await first.begun(token);
  first.runs[1]?.resolve({ text: 'answer', usage: { prompt_tokens: 1, completion_tokens: 2 } });
  first.runs[2]?.reject(new OrchdError('RATE_LIMITED', undefined, { turnedAway: 'quota', retryAfterMs: 5 }));
  first.runs[3]?.resolve({ text: 'gone' });
  await turn();
  first.executions.acknowledge(who, 'acked');
  first.executions.cancel(who, 'dead', 'end');
  const running = first.kept.memory.find('me', 'runs');
  assert.ok(running?.is === 'execution');
  await first.kept.keepId(running.execution, 'resp_1');
  await turn();

  const second = await first.next();
  assert.equal(second.kept.memory.registry, first.kept.memory.registry);
  assert.equal(second.kept.memory.rememberedSince, first.kept.memory.rememberedSince);
  assert.deepEqual(
    ['runs', 'ended', 'failed', 'acked', 'dead', 'never'].map((token) => second.state(token)),
    ['running', 'ended', 'ended', 'forgotten', 'tombstone', undefined],
  );
  const again = second.begin('ended');
  assert.deepEqual(again.outcome, {
    ok: true,
    result: { text: 'answer', usage: { prompt_tokens: 1, completion_tokens: 2 } },
    decode_time_ms: 0,
  });
  assert.match(again.log.after(0, 1e6).at(-1)?.text ?? '', /^id: 2000000002\nevent: end\ndata: .*"answer"/);
  const failed = second.begin('failed').outcome;
  assert.ok(failed?.ok === false);
  assert.deepEqual([failed.error.turned_away, failed.error.retry_after_ms], ['quota', 5]);
  assert.throws(() => second.begin('dead'), { code: 'TOMBSTONED' });
  const resumed = second.begin('runs');
  assert.deepEqual([resumed.upstreamId, resumed.call, resumed.hash], ['resp_1', CALL, 'h']);
  assert.equal(second.runs.length, 0, 'nothing is begun again');
  const third = await second.next();
  assert.match(third.begin('runs').log.after(0, 1e6)[0]?.text ?? '', /^id: 3000000001\n/);
});

test('a full disk: nothing begins, a tombstone is not promised, and a result is told when there is room', async (t) => {
  const kit = await Kit.open();
  t.after(() => kit.kept.close());
  await kit.begun('a');
  kit.faulty.maxFileBytes = 0;
  const refused = kit.begin('b');
  await assert.rejects(kit.kept.memory.pending('me', 'b') as Promise<void>, {
    code: 'WORKER_BUSY',
    message: /disk .* full/,
  });
  await turn();
  assert.deepEqual([kit.runs.length, kit.state('b'), kit.kept.memory.running], [1, undefined, 1]);
  assert.equal(refused.outcome, undefined);
  kit.executions.cancel(who, 'c', 'bury');
  await assert.rejects(kit.kept.memory.pending('me', 'c') as Promise<void>, { code: 'WORKER_BUSY' });
  await turn();
  assert.equal(kit.state('c'), undefined);
  kit.runs[0]?.resolve({ text: 'x' });
  await turn();
  assert.equal(kit.outcome('a'), undefined);
  kit.faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  await turn();
  assert.equal(kit.outcome('a'), true);
  const second = await kit.next();
  assert.deepEqual(
    [second.state('a'), second.state('b'), second.state('c')],
    ['ended', undefined, undefined],
  );
});

test('a failed sync ends the process, and its result is not told', async () => {
  const kit = await Kit.open();
  const execution = await kit.begun('a');
  kit.faulty.failsSyncs = true;
  kit.runs[0]?.resolve({ text: 'x' });
  assert.equal((await kit.kept.failed).code, 'STORE_FAILED');
  await turn();
  assert.equal(execution.outcome, undefined);
});

test('a torn tail is cut; damage before it is a lost memory: a new registry, and the file is set aside', async () => {
  const first = await Kit.open();
  await first.begun('a');
  await first.begun('b');
  const { registry } = first.kept.memory;
  const torn = first.faulty.memory.copy();
  torn.files.set(FILE, (torn.files.get(FILE) as Buffer).subarray(0, -3));
  const cut = await Kit.open(torn);
  assert.deepEqual(
    [cut.kept.memory.registry, cut.state('a'), cut.state('b')],
    [registry, 'running', undefined],
  );
  const damaged = first.faulty.memory.copy();
  const bytes = damaged.files.get(FILE) as Buffer;
  bytes[600] = (bytes[600] as number) ^ 1;
  const lost = await Kit.open(damaged);
  assert.notEqual(lost.kept.memory.registry, registry);
  assert.equal(lost.state('a'), undefined);
  assert.match(lost.lines.join(''), /damaged/);
  const aside = [...damaged.files.keys()].find((path) => path.includes('.damaged-'));
  assert.deepEqual(damaged.files.get(aside ?? ''), bytes);
});

test('an older opening of an owner is fenced by the next process too', async () => {
  const first = await Kit.open();
  const headers = (epoch: number) => ({ 'x-orchd-owner': 'me', 'x-orchd-epoch': String(epoch) });
  first.faulty.held = Promise.withResolvers();
  let isObeyed = false;
  const checked = new KeptEpochs(first.kept).check(headers(7)).then(() => {
    isObeyed = true;
  });
  await turn();
  assert.equal(isObeyed, false, 'an opening is obeyed once it is durable');
  first.faulty.held.resolve();
  await checked;
  const epochs = new KeptEpochs((await first.next()).kept);
  await assert.rejects(epochs.check(headers(6)), { code: 'FENCED' });
  assert.equal((await epochs.check(headers(8))).epoch, 8);
  assert.equal(epochs.openingBefore('me')?.epoch, 7);
});

test('one process has the folder, and a copy of it has a memory of its own', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-kept-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const logger = createLogger({ write: () => undefined, now: () => 0 });
  const open = (name: string) =>
    KeptMemory.open({
      env: realEnv(),
      logger,
      folder: join(folder, name),
      queueOwner: 'q',
      maxLogBytes: 1000,
    });
  const first = await open('one');
  await assert.rejects(open('one'), { code: 'STORE_LOCKED' });
  const { registry } = first.memory;
  await first.close();
  cpSync(join(folder, 'one'), join(folder, 'two'), { recursive: true });
  const copy = await open('two');
  assert.notEqual(copy.memory.registry, registry);
  const again = await open('one');
  assert.deepEqual([again.memory.registry, again.state.life], [registry, 2]);
  await again.close();
  await copy.close();
});
