/** What executors are told to drop: surely, and the text of a deleted session at once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { Stage } from '../../test/flow/stage.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { runtimeSettings } from '../app/settings.ts';
import { loadConfig } from '../config/load.ts';
import { MemoryStore } from '../stores/memory/memory.ts';
import { Orchestrator } from './orchestrator.ts';

const TENANT = 'default';

/** An executor that keeps everything for late readers, and answers the first orders with a failure, or not at all. */
class Keeping extends Stage {
  readonly erased: string[] = [];
  failures = 0;
  hangs = false;

  override async ack(token: string): Promise<void> {
    this.#fail();
    await super.ack(token);
  }

  async erase(token: string): Promise<void> {
    if (this.hangs) return new Promise(() => undefined);
    this.#fail();
    this.erased.push(token);
    await super.ack(token);
  }

  #fail(): void {
    if (this.failures-- > 0) throw new Error('no answer');
  }
}

/** Runs a job of a session, whose executor says something. */
async function say(brain: Orchestrator, stage: Stage, id: string, session_id = 's'): Promise<void> {
  await brain.submit({ job_id: id, session_id, payload: `asked in ${id}` });
  await stage.until(() => stage.started.includes(`${id}:1`));
  stage.emit(`${id}:1`, 'token', { t: `said in ${id}`, i: 0 });
  stage.end(`${id}:1`);
  await brain.wait(id);
}

async function eventsOf(brain: Orchestrator, id: string, after?: string): Promise<string> {
  const events: unknown[] = [];
  for await (const event of brain.events(id, after === undefined ? {} : { after })) events.push(event);
  return JSON.stringify(events);
}

test('an acknowledgement that gets no answer is repeated until it gets one', async (t) => {
  const stage = new Keeping();
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  stage.failures = 3;
  await say(orchestrator, stage, 'a');
  await say(orchestrator, stage, 'b');
  await stage.until(() => stage.acks.length === 2);
  assert.deepEqual(stage.acks.toSorted(), ['a:1', 'b:1']);
  assert.deepEqual(stage.erased, []);
});

test('executors are told to erase what was said in a deleted session, and that of no other', async (t) => {
  const stage = new Keeping();
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  await say(orchestrator, stage, 'a');
  await say(orchestrator, stage, 'b');
  await say(orchestrator, stage, 'other', 'another');
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  assert.deepEqual(stage.erased.toSorted(), ['a:1', 'b:1'], 'before the deletion is answered');
  assert.match(await eventsOf(orchestrator, 'other'), /said in other/);
});

test('an executor that was not reached with the order gets it again', async (t) => {
  const stage = new Keeping();
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  await say(orchestrator, stage, 'a');
  stage.failures = 2;
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  await stage.until(() => stage.erased.length > 0);
  assert.deepEqual(stage.erased, ['a:1']);
});

test('a deletion does not wait for ever for an executor that does not answer', async (t) => {
  const stage = new Keeping();
  const time = new VirtualEnv();
  const env = time.env();
  const settings = { ...runtimeSettings(loadConfig({})), holderLostMs: 3_600_000 };
  const brain = new Orchestrator({ env, store: new MemoryStore(env.timers), backends: [stage], settings });
  t.after(() => time.until(brain.stop()));
  await time.until(brain.start());
  await time.until(say(brain, stage, 'a'));
  stage.hangs = true;
  const before = time.now;
  await time.until(brain.sessions.remove(TENANT, 's', 'me'));
  assert.ok(time.now - before < settings.holderLostMs);
});

test('nobody reads the events of a job of a deleted session, whatever its executor still has', async (t) => {
  const stage = new Stage();
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  await say(orchestrator, stage, 'a');
  const late = `asked ${'x'.repeat(200_000)}`;
  await orchestrator.submit({ job_id: 'large', session_id: 's', payload: late });
  await stage.until(() => stage.started.includes('large:1'));
  stage.emit('large:1', 'token', { t: 'said in large', i: 0 });
  stage.end('large:1', { ok: true, resultText: JSON.stringify(late) });
  await orchestrator.wait('large');
  for (const id of ['a', 'large']) assert.match(await eventsOf(orchestrator, id), /said in/);
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  for (const id of ['a', 'large'])
    for (const after of [undefined, '1.0']) {
      const events = await eventsOf(orchestrator, id, after);
      assert.match(events, /^\[\{"type":"end","data":\{"job_id":"\w+","state":"succeeded"\}/);
      assert.doesNotMatch(events, /said in|asked/);
    }
});

test('a reader that is slow is cut off when the session is deleted', async (t) => {
  const stage = new Stage();
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  await orchestrator.submit({ job_id: 'a', session_id: 's' });
  await stage.until(() => stage.started.includes('a:1'));
  const heard: string[] = [];
  let isCut = false;
  const write = (events: readonly { data: string }[]): boolean => {
    heard.push(...events.map(({ data }) => data));
    return false;
  };
  const end = (): void => {
    isCut = true;
  };
  const follower = await orchestrator.follow('a', { attempt: 0, n: 0 }, { write, end });
  stage.emit('a:1', 'token', { t: 'first', i: 0 });
  while (!heard.join('').includes('first')) await new Promise((resolve) => setImmediate(resolve));
  stage.emit('a:1', 'token', { t: 'second', i: 1 });
  stage.end('a:1');
  await orchestrator.wait('a');
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  assert.equal(isCut, true);
  follower?.ready();
  assert.doesNotMatch(heard.join(''), /second/);
});

test('what a job has said that is cancelled with its session is erased when it has ended', async (t) => {
  const stage = new Keeping();
  stage.obeys = false;
  const { orchestrator } = await memoryBrain(t, { backends: [stage] });
  await orchestrator.submit({ job_id: 'a', session_id: 's' });
  await stage.until(() => stage.started.includes('a:1'));
  await orchestrator.sessions.remove(TENANT, 's', 'me');
  assert.deepEqual(stage.erased, []);
  stage.end('a:1');
  await stage.until(() => stage.erased.length > 0);
  assert.deepEqual(stage.erased, ['a:1']);
});
