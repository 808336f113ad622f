import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { runtimeSettings } from '../app/settings.ts';
import { loadConfig } from '../config/load.ts';
import { realEnv } from '../kit/env/real.ts';
import { type Change, DEFAULT_TENANT } from '../model/records.ts';
import { MemoryStore } from '../stores/memory/memory.ts';
import { Orchestrator } from './orchestrator.ts';

const JOBS = 800;
const SESSIONS = 6;

/** The changes that each turn of the loop has made. */
class RecordingStore extends MemoryStore {
  turns: (readonly Change[])[] = [];

  override append(changes: readonly Change[], now: number): number {
    this.turns.push(changes);
    return super.append(changes, now);
  }
}

async function startBrain(t: TestContext): Promise<{ orchestrator: Orchestrator; store: RecordingStore }> {
  const env = realEnv();
  const store = new RecordingStore(env.timers);
  const settings = runtimeSettings(loadConfig({}));
  const orchestrator = new Orchestrator({ env, store, settings, backends: [] });
  t.after(() => orchestrator.stop());
  await orchestrator.start();
  for (let session = 0; session < SESSIONS; session++) {
    const requests = Array.from({ length: JOBS }, () => ({ type: 'none', session_id: `s${session}` }));
    await orchestrator.submitMany(requests);
  }
  store.turns = [];
  return { orchestrator, store };
}

const deletedSessions = (changes: readonly Change[]): string[] =>
  changes.filter(({ kind, after }) => kind === 'session' && after === null).map(({ id }) => id);

test('commands that arrive together share out the turns of the loop, in the order in which they came', async (t) => {
  const { orchestrator, store } = await startBrain(t);
  const answered: number[] = [];
  await Promise.all(
    Array.from({ length: SESSIONS }, async (_, session) => {
      await orchestrator.sessions.remove(DEFAULT_TENANT, `s${session}`, 'test');
      answered.push(session);
    }),
  );
  assert.deepEqual(answered, [0, 1, 2, 3, 4, 5]);
  const deleting = store.turns.map(deletedSessions).filter(({ length }) => length > 0);
  assert.equal(deleting.length, SESSIONS, 'one session in each turn');
  const largest = Math.max(...store.turns.map(({ length }) => length));
  assert.ok(largest < 2 * 1024, `a turn of ${largest} changes`);
});

test('a submit is not kept waiting by many commands that came before it', async (t) => {
  const { orchestrator, store } = await startBrain(t);
  const ends: string[] = [];
  const noting = (what: string, done: Promise<unknown>): Promise<unknown> => done.then(() => ends.push(what));
  const deleting = Array.from({ length: SESSIONS }, (_, at) =>
    noting(`session ${at}`, orchestrator.sessions.remove(DEFAULT_TENANT, `s${at}`, 'test')),
  );
  const submitting = noting('submit', orchestrator.submit({ job_id: 'new', type: 'none' }));
  await Promise.all([...deleting, submitting]);
  assert.ok(ends.indexOf('submit') <= 1, ends.join());
  const created = store.turns.findIndex((changes) => changes.some(({ kind }) => kind === 'ask'));
  assert.equal(created, 0, 'it is in the first turn');
});

test('of two commands for the same job the first one is carried out first', async (t) => {
  const { orchestrator } = await startBrain(t);
  await orchestrator.submit({ job_id: 'a', type: 'none' });
  const removing = orchestrator.sessions.remove(DEFAULT_TENANT, 's0', 'test');
  const cancelling = orchestrator.cancel('a');
  const redriving = orchestrator.redrive('a').then(
    () => 'redriven',
    ({ code }: { code: string }) => code,
  );
  await removing;
  assert.equal((await cancelling).state, 'cancelled');
  assert.equal(await redriving, 'ILLEGAL_STATE');
});
