import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { FunctionBackend } from '../backends/local/functions.ts';
import type { Backend, BackendListener, BackendSource } from '../core/ports/backend.ts';
import { realEnv } from '../kit/env/real.ts';
import { poll } from '../kit/poll.ts';
import type { Orchestrator } from './orchestrator.ts';

class FakeSource implements BackendSource {
  listener: BackendListener | undefined;
  readonly forgotten: string[] = [];

  start(listener: BackendListener): void {
    this.listener = listener;
  }

  async stop(): Promise<void> {
    this.listener = undefined;
  }

  forget(backend: string): void {
    this.forgotten.push(backend);
  }
}

/** Jobs that report when they run, and run until they are released. */
class HeldWork {
  readonly running = new Set<string>();
  readonly #releases: (() => void)[] = [];

  backend(name: string, slots: number): Backend {
    const hold = (_: never, { jobId }: { readonly jobId: string }): Promise<string> => {
      this.running.add(jobId);
      return new Promise((resolve) => this.#releases.push(() => resolve(name)));
    };
    return new FunctionBackend(realEnv(), { name, slots, types: { hold } });
  }

  release(): void {
    for (const release of this.#releases.splice(0)) release();
  }
}

const until = async (holds: () => boolean | Promise<boolean>, what: string): Promise<void> => {
  const look = async (): Promise<true | undefined> => (await holds()) || undefined;
  assert.ok(await poll(realEnv(), { everyMs: 5, atMostMs: 10_000 }, look), what);
};

const slotsOf = ({ reads }: Orchestrator): number[] => reads.backends().map(({ slots }) => slots);

test('a backend of a source runs jobs while it is present, with the slots it reported last', async (t) => {
  const source = new FakeSource();
  const work = new HeldWork();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  for (const job_id of ['a', 'b']) await orchestrator.submit({ job_id, type: 'hold' });
  assert.equal((await orchestrator.get('a')).waiting?.code, 'no_backend');
  source.listener?.present(work.backend('seat', 1));
  await until(() => work.running.has('a'), 'the first job runs');
  assert.deepEqual([work.running.size, slotsOf(orchestrator)], [1, [1]]);
  // Another backend object under the same name: jobs that the former one runs stay there.
  source.listener?.present(work.backend('seat', 2));
  await until(() => work.running.has('b'), 'the second job runs');
  assert.deepEqual(slotsOf(orchestrator), [2]);
  work.release();
  assert.equal((await orchestrator.wait('b')).result, 'seat');
});

test('an attempt on a backend that is gone is unknown, and the backend is not called any more', async (t) => {
  const source = new FakeSource();
  const work = new HeldWork();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  source.listener?.present(work.backend('seat', 1));
  await orchestrator.submit({ job_id: 'a', type: 'hold', on_unknown: 'hold' });
  await until(() => work.running.has('a'), 'it runs');
  source.listener?.gone('seat');
  await until(async () => (await orchestrator.get('a')).state === 'stale', 'its outcome is unknown');
  assert.deepEqual([orchestrator.reads.backends(), source.forgotten], [[], ['seat']]);
  await orchestrator.submit({ job_id: 'b', type: 'hold' });
  assert.equal((await orchestrator.get('b')).waiting?.code, 'no_backend');
  assert.equal((await orchestrator.resolve('a', { as: 'failed' })).state, 'dead');
});

test('a job with on_unknown: retry runs again on another backend', async (t) => {
  const source = new FakeSource();
  const work = new HeldWork();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  source.listener?.present(work.backend('one', 1));
  await orchestrator.submit({ job_id: 'a', type: 'hold', on_unknown: 'retry' });
  await until(() => work.running.has('a'), 'it runs');
  work.running.clear();
  source.listener?.present(work.backend('other', 1));
  source.listener?.gone('one');
  await until(() => work.running.has('a'), 'it runs again');
  work.release();
  const { result, attempts } = await orchestrator.wait('a');
  assert.deepEqual(
    [result, attempts.map(({ backend, state }) => [backend, state])],
    [
      'other',
      [
        ['one', 'abandoned'],
        ['other', 'ended'],
      ],
    ],
  );
});

test('an attempt that a replaced backend does not answer for is asked for at the backend in its place', async (t) => {
  const source = new FakeSource();
  const work = new HeldWork();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  const next = work.backend('seat', 1);
  let asked = 0;
  const silent = async (): Promise<never> => {
    asked++;
    throw new Error('no answer');
  };
  // It answers until it is offered a job.
  const known = { registry: 'former', rememberedSince: 0, known: new Map() };
  const former: Backend = {
    info: { ...next.info, registry: 'former' },
    offer: silent,
    inspect: () => (asked === 0 ? Promise.resolve(known) : silent()),
    follow: silent,
    kill: silent,
    ack: silent,
  };
  source.listener?.present(former);
  await orchestrator.submit({ job_id: 'a', type: 'hold', on_unknown: 'retry' });
  await until(() => asked > 2, 'the former backend is asked again and again');
  source.listener?.present(next);
  await until(() => work.running.has('a'), 'it runs on the other one');
  work.release();
  assert.equal((await orchestrator.wait('a')).result, 'seat');
});

test('a cancel is complete when the backend that had to carry it out is gone', async (t) => {
  const source = new FakeSource();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  const stubborn = async (): Promise<never> => new Promise(() => undefined);
  const backend = new FunctionBackend(realEnv(), { name: 'seat', types: { hold: stubborn } });
  source.listener?.present(backend);
  await orchestrator.submit({ job_id: 'a', type: 'hold' });
  await until(async () => (await orchestrator.get('a')).state === 'running', 'it runs');
  await orchestrator.cancel('a');
  source.listener?.gone('seat');
  const { state, attempts } = await orchestrator.wait('a');
  assert.equal(state, 'cancelled');
  await until(
    async () => (await orchestrator.get('a')).attempts[0]?.state === 'abandoned',
    'no slot is held',
  );
  assert.equal(attempts.length, 1);
});

test('a source that fails to stop does not prevent others from stopping', async (t) => {
  const broken: BackendSource = {
    ...new FakeSource(),
    start: () => undefined,
    stop: () => Promise.reject(new Error('no')),
    forget: () => undefined,
  };
  const source = new FakeSource();
  const { orchestrator } = await memoryBrain(t, { sources: [broken, source] });
  await orchestrator.stop();
  assert.equal(source.listener, undefined);
});

test('a source is ignored once the brain stops', async (t) => {
  const source = new FakeSource();
  const { orchestrator } = await memoryBrain(t, { sources: [source] });
  const { listener } = source;
  await orchestrator.stop();
  assert.equal(source.listener, undefined);
  listener?.present(new HeldWork().backend('late', 1));
  listener?.gone('late');
});
