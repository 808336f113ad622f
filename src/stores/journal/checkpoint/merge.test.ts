import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { change, FolderMaker, JobScript, NOW, newState } from '../../../../test/fakes/folder-maker.ts';
import { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { recover, stateHash } from '../../../../test/fakes/restored.ts';
import { State } from '../../../core/state/state.ts';
import type { OpenMode } from '../../../kit/env/env.ts';
import { errorInfo } from '../../../model/errors.ts';
import { BRAIN_ID, type Change } from '../../../model/records.ts';
import { isTerminal } from '../../../model/states.ts';
import { NO_CHECKPOINT } from './manifest.ts';

/** Drops the ended jobs that the history holds, as a brain does. */
function forgetIndexed(state: State, indexedUpTo: number): State {
  for (const entry of [...state.ended]) if (entry.seq <= indexedUpTo) state.forget(entry);
  return state;
}

async function recovered(maker: FolderMaker, indexedUpTo = 0): Promise<State> {
  const state = newState();
  await recover(maker.disk, maker.paths, state, NOW);
  return forgetIndexed(state, indexedUpTo);
}

const failure = (id: string, until: number | null): Change =>
  change(
    'failure',
    id,
    until === null ? null : { v: 1, until, error: errorInfo('EXECUTION_FAILED', `${id} ${until}`) },
  );

/** Executes random commands: each names a job by number and makes the next legal move of its kind on that job. */
class RandomRun {
  readonly maker: FolderMaker;
  readonly all = newState();
  readonly #jobs = new Map<string, { script: JobScript; n: number; endedAt: number | undefined }>();
  indexedUpTo = 0;
  #epoch = 1;

  constructor(maker: FolderMaker) {
    this.maker = maker;
    this.all.apply(change('brain', BRAIN_ID, { v: 1, owner: 'o', epoch: 1, attemptFloor: 0 }), NOW);
  }

  async add(...changes: readonly Change[]): Promise<void> {
    if (changes.length === 0) return;
    for (const each of changes) this.all.apply(each, NOW);
    await this.maker.add(...changes);
  }

  async run(kind: string, job: number, value: number): Promise<void> {
    switch (kind) {
      case 'checkpoint':
        await this.maker.checkpoint(this.indexedUpTo);
        return;
      case 'index':
        this.indexedUpTo = this.maker.next - 1;
        return;
      case 'failure':
        // One entry in three is a removal, one in three has expired already.
        return this.add(
          failure(`key-${job % 4}`, [null, NOW - 1 - value, NOW + 1 + value][value % 3] ?? null),
        );
      case 'brain': {
        const after = { v: 1 as const, owner: 'o', epoch: ++this.#epoch, attemptFloor: value };
        this.maker.epoch = this.#epoch;
        return this.add(change('brain', BRAIN_ID, after));
      }
      default:
        return this.#move(kind, `job-${job}`);
    }
  }

  async #move(kind: string, uid: string): Promise<void> {
    const known = this.#jobs.get(uid);
    if (!known) {
      const script = new JobScript(uid);
      this.#jobs.set(uid, { script, n: this.maker.next, endedAt: undefined });
      return this.add(...script.ask(this.maker.next));
    }
    const gone = known.endedAt !== undefined && known.endedAt <= this.indexedUpTo;
    if (kind === 'reuse' && gone) {
      // The job was purged from the history, and its caller submits the same id again.
      known.n = this.maker.next;
      await this.add(...known.script.ask(known.n, { hash: 'h' }));
    } else await this.add(...this.#step(kind, known.script, known.n, gone));
    known.endedAt = isTerminal(known.script.job.state) ? (known.endedAt ?? this.maker.next - 1) : undefined;
  }

  #step(kind: string, script: JobScript, n: number, gone: boolean): Change[] {
    const { state } = script.job;
    if (state === 'queued') return kind === 'cancel' ? script.cancel() : script.claim();
    if (state === 'claimed') return script.start();
    if (state === 'running')
      return kind === 'succeed' ? script.succeed() : script.fail(kind === 'die' ? 'die' : 'retry');
    if (state !== 'dead') return [];
    return gone ? script.revive(n) : script.redrive();
  }
}

const kinds = [
  'checkpoint',
  'index',
  'failure',
  'brain',
  'go',
  'go',
  'go',
  'go',
  'go',
  'succeed',
  'die',
  'die',
  'cancel',
  'reuse',
];

test('a checkpoint and the log after it give the same state as the log alone, whatever happened and whenever the checkpoint was made', async () => {
  const commands = fc.array(fc.tuple(fc.constantFrom(...kinds), fc.nat(1), fc.nat(8)), {
    minLength: 20,
    maxLength: 120,
  });
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      const history = new RandomRun(await FolderMaker.make());
      for (const [kind, job, value] of sequence) await history.run(kind, job, value);
      const scope = { failuresAt: NOW };
      const { maker, indexedUpTo } = history;
      const expected = stateHash(forgetIndexed(history.all, indexedUpTo), scope);
      assert.equal(stateHash(await recovered(maker, indexedUpTo), scope), expected);
      // The same again with a checkpoint of everything.
      await maker.checkpoint(indexedUpTo);
      assert.equal(stateHash(await recovered(maker, indexedUpTo), scope), expected);
    }),
    { numRuns: 300 },
  );
});

test('a job redriven out of the history is in the checkpoint with its current state', async () => {
  const maker = await FolderMaker.make();
  const job = new JobScript('a');
  const n = maker.next;
  await maker.add(...job.ask(n), ...job.claim(), ...job.start(), ...job.fail('retry'));
  await maker.add(...job.claim(), ...job.start());
  await maker.checkpoint();
  await maker.add(...job.fail('die'));
  const indexedUpTo = maker.next - 1;
  await maker.add(...job.revive(n), ...job.claim(), ...job.start());
  await maker.checkpoint(indexedUpTo);
  const entry = (await recovered(maker, indexedUpTo)).jobs.get('a');
  assert.deepEqual([entry?.job.state, entry?.job.attempt, entry?.open?.n], ['running', 3, 3]);
  assert.equal(entry?.past, undefined, 'attempts from before the redrive are not kept');
});

test('a redriven job that has ended again is not recovered in an earlier state', async () => {
  const maker = await FolderMaker.make();
  const job = new JobScript('a');
  const n = maker.next;
  await maker.add(...job.ask(n));
  await maker.checkpoint();
  await maker.add(...job.claim(), ...job.start(), ...job.fail('die'));
  await maker.add(...job.revive(n), ...job.claim(), ...job.start(), ...job.succeed());
  const indexedUpTo = maker.next - 1;
  await maker.checkpoint(indexedUpTo);
  assert.equal((await recovered(maker, indexedUpTo)).jobs.get('a'), undefined);
});

test('a job whose id was purged and used again is not recovered in the state of the purged job', async () => {
  const maker = await FolderMaker.make();
  const first = new JobScript('a');
  await maker.add(...first.ask(maker.next, { hash: 'h' }));
  await maker.checkpoint();
  await maker.add(...first.cancel());
  // The first job was purged from the history; its caller submits the same id again.
  const second = new JobScript('a');
  await maker.add(...second.ask(maker.next, { hash: 'h' }));
  await maker.add(...second.claim(), ...second.start(), ...second.succeed());
  const indexedUpTo = maker.next - 1;
  await maker.checkpoint(indexedUpTo);
  assert.equal((await recovered(maker, indexedUpTo)).jobs.get('a')?.job.state, undefined);
});

test('an ended job stays in the checkpoint until the history has it', async () => {
  const maker = await FolderMaker.make();
  const job = new JobScript('a');
  await maker.add(...job.ask(maker.next), ...job.claim(), ...job.start(), ...job.succeed());
  const endedAt = maker.next - 1;
  await maker.checkpoint(endedAt - 1);
  assert.equal((await recovered(maker)).jobs.get('a')?.job.state, 'succeeded');
  await maker.add(failure('x', null));
  const { parts } = await maker.checkpoint(endedAt);
  assert.deepEqual(
    parts.map(({ records }) => records),
    [1],
    'only the brain is left',
  );
});

test('the failure cache is recovered with its oldest entry first', async () => {
  const maker = await FolderMaker.make();
  await maker.add(failure('first', NOW + 1), failure('second', NOW + 1));
  await maker.checkpoint();
  await maker.add(failure('third', NOW + 1), failure('first', NOW + 2));
  await maker.checkpoint();
  assert.deepEqual([...(await recovered(maker)).failures.keys()], ['second', 'third', 'first']);
});

test('the failure cache is recovered within its configured size', async () => {
  const maker = await FolderMaker.make();
  await maker.add(...['a', 'b', 'c', 'd'].map((id) => failure(id, NOW + 1)));
  await maker.checkpoint();
  const state = new State({ cancelDeadlineMs: 5000, failureCacheSize: 3 });
  await recover(maker.disk, maker.paths, state, NOW);
  assert.deepEqual([...state.failures.keys()], ['b', 'c', 'd']);
});

/** Records the paths of the files that are created. */
class WatchedDisk extends MemoryDisk {
  created: string[] = [];

  override open(path: string, mode: OpenMode) {
    if (mode === 'create') this.created.push(path);
    return super.open(path, mode);
  }
}

/** A folder with a part large enough to be reused by the next checkpoint. */
async function largeFolder(): Promise<{ maker: FolderMaker; disk: WatchedDisk; jobs: JobScript[] }> {
  const disk = new WatchedDisk();
  const maker = await FolderMaker.make(disk);
  const jobs = Array.from({ length: 1500 }, (_, at) => new JobScript(`job-${at}`));
  const payload = 'x'.repeat(4000);
  await maker.add(...jobs.flatMap((job, at) => job.ask(maker.next + at, { payload })));
  await maker.checkpoint();
  disk.created = [];
  return { maker, disk, jobs };
}

test('a large part in which nothing changed is not rewritten', async () => {
  const { maker, disk } = await largeFolder();
  const [large] = maker.manifest.parts;
  const before = disk.files.get(join(maker.paths.parts, large?.name ?? ''));
  const fresh = new JobScript('fresh');
  await maker.add(...fresh.ask(maker.next));
  const { parts } = await maker.checkpoint();
  assert.deepEqual(parts[0], large);
  assert.equal(disk.files.get(join(maker.paths.parts, large?.name ?? '')), before);
  const rewritten = disk.created.filter((path) => path.startsWith(maker.paths.parts));
  const bytes = rewritten.reduce((sum, path) => sum + (disk.files.get(path)?.length ?? 0), 0);
  assert.ok(bytes < 2000, `${bytes} bytes were written for one small job`);
  assert.equal((await recovered(maker)).jobs.size, 1501);
});

test('a large part is rewritten when a job in it changed', async () => {
  const { maker, jobs } = await largeFolder();
  const [large] = maker.manifest.parts;
  await maker.add(...(jobs[700] as JobScript).cancel());
  const { parts } = await maker.checkpoint();
  assert.ok(parts.every(({ name }) => name !== large?.name));
  const state = await recovered(maker);
  assert.deepEqual([state.jobs.size, state.jobs.get('job-700')?.job.state], [1500, 'cancelled']);
});

test('an empty store has no checkpoint and recovers an empty state', async () => {
  const maker = await FolderMaker.make();
  await maker.disk.remove(maker.segment);
  const state = newState();
  const { manifest } = await recover(maker.disk, maker.paths, state, NOW);
  assert.equal(manifest, NO_CHECKPOINT);
  assert.deepEqual([state.seq, state.jobs.size, state.brain], [0, 0, undefined]);
});
