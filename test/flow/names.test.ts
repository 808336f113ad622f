/** Names that look alike are different names, on every store, while a job lives, after it and after a restart. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { onStores, refusalOf, STORES, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

const KEYS = [
  'key',
  'Key',
  'KEY',
  'key ',
  'key  ',
  ' key',
  'key\t',
  'key\n',
  'key\u0000',
  'kéy',
  'ke\u0301y',
  'straße',
  'strasse',
  'STRASSE',
  'ı',
  'i',
  'I',
  'İ',
  '🦊',
  '🐺',
  '🦊 ',
  '👩‍👩‍👧',
  '\ufffd',
  '%',
  '_',
  "'",
  '\\',
  'k'.repeat(255),
  `${'k'.repeat(254)}K`,
  `${'k'.repeat(254)} `,
  // An emoji is one character, although two UTF-16 units in memory and four bytes on disk.
  '🦊'.repeat(255),
  `${'🦊'.repeat(254)}🐺`,
];

const IDS = ['job', 'Job', 'JOB', 'job.', 'job-', 'job_', '.job', 'j'.repeat(128), `${'j'.repeat(127)}J`];
const SESSIONS = ['s', 'S', 's.', 's/', 's:', 'S@', 'x'.repeat(128), `${'x'.repeat(127)}X`];

interface Brain {
  readonly stage: Stage;
  readonly orchestrator: Orchestrator;
}

async function begin(t: TestContext, data: string, stage = new Stage({ slots: 1000 })): Promise<Brain> {
  t.after(() => stage.endAll());
  return { stage, orchestrator: await start(t, { data, backends: [stage] }) };
}

/** The same in another brain, where the place keeps anything. */
async function again(t: TestContext, data: string, { stage, orchestrator }: Brain): Promise<Brain> {
  if (data === 'memory') return { stage, orchestrator };
  await orchestrator.stop();
  return begin(t, data, stage);
}

/** Ends all that runs, and waits until the history has it. */
async function endAll({ stage, orchestrator }: Brain, count: number): Promise<void> {
  await stage.startedCount(count);
  stage.endAll();
  while (engineOf(orchestrator).state.jobs.size > 0) await turns(1);
}

async function idsOf(orchestrator: Orchestrator, request: object): Promise<string[]> {
  return (await orchestrator.list(request)).jobs.map(({ job_id }) => job_id);
}

onStores('a key is the same key only to the last character', STORES, async (t, data) => {
  let brain = await begin(t, data);
  const ids = new Map<string, string>();
  for (const key of KEYS) ids.set(key, (await brain.orchestrator.submit({ key })).job_id);
  assert.equal(new Set(ids.values()).size, KEYS.length, 'each is a job of its own');
  for (let round = 0; round < 2; round++) {
    for (const [key, id] of ids) {
      const repeat = await brain.orchestrator.submit({ key });
      assert.deepEqual([repeat.job_id, repeat.duplicate_of], [id, 'key'], JSON.stringify(key));
      assert.deepEqual(await idsOf(brain.orchestrator, { key }), [id], JSON.stringify(key));
    }
    brain = await again(t, data, brain);
  }
  await endAll(brain, KEYS.length);
  for (let round = 0; round < 2; round++) {
    for (const [key, id] of ids) {
      assert.deepEqual(await idsOf(brain.orchestrator, { key }), [id], JSON.stringify(key));
      assert.equal((await brain.orchestrator.get(id)).key, key);
    }
    brain = await again(t, data, brain);
  }
});

onStores(
  'a key that failed for good is refused to the last character, and no other with it',
  STORES,
  async (t, data) => {
    let brain = await begin(t, data);
    const failing = KEYS.filter((_, n) => n % 2 === 0);
    for (const key of failing) await brain.orchestrator.submit({ key, max_tries: 1 });
    await brain.stage.startedCount(failing.length);
    const error = { code: 'EXECUTION_FAILED', message: 'no', retriable: false } as const;
    for (const token of brain.stage.runningTokens) brain.stage.end(token, { ok: false, error });
    while (engineOf(brain.orchestrator).state.jobs.size > 0) await turns(1);
    brain = await again(t, data, brain);
    for (const key of KEYS) {
      const taken = await brain.orchestrator.submit({ key }).then(
        () => true,
        (refused: { code: string }) => refused.code !== 'ADMISSION_REJECT',
      );
      assert.equal(taken, !failing.includes(key), JSON.stringify(key));
    }
  },
);

onStores('a job id is the same id only to the last character', STORES, async (t, data) => {
  let brain = await begin(t, data);
  for (const [n, job_id] of IDS.entries()) {
    assert.equal((await brain.orchestrator.submit({ job_id, payload: n })).duplicate_of, undefined, job_id);
  }
  const areThemselves = async (): Promise<void> => {
    for (const [n, job_id] of IDS.entries()) {
      const repeat = await brain.orchestrator.submit({ job_id, payload: n });
      assert.equal(repeat.duplicate_of, 'job_id', job_id);
      const other = await refusalOf(() => brain.orchestrator.submit({ job_id, payload: 'another' }));
      assert.equal(other.code, 'JOB_CONFLICT', job_id);
      assert.equal((await brain.orchestrator.get(job_id)).job_id, job_id);
    }
    for (const unknown of ['JoB', 'job..', 'j'.repeat(127), 'J'.repeat(128)]) {
      assert.equal((await refusalOf(() => brain.orchestrator.get(unknown))).code, 'NOT_FOUND', unknown);
    }
  };
  await areThemselves();
  brain = await again(t, data, brain);
  await areThemselves();
  await endAll(brain, IDS.length);
  await areThemselves();
  brain = await again(t, data, brain);
  await areThemselves();
  for (const id of IDS) assert.equal((await brain.orchestrator.get(id)).result, `${id}:1`);
});

onStores(
  'jobs of one session run one at a time, whatever other sessions are called',
  STORES,
  async (t, data) => {
    let brain = await begin(t, data);
    for (const [n, session_id] of SESSIONS.entries()) {
      for (const turn of ['first', 'second']) {
        await brain.orchestrator.submit({ job_id: `${turn}${n}`, session_id });
      }
    }
    await brain.stage.startedCount(SESSIONS.length);
    brain = await again(t, data, brain);
    const firsts = SESSIONS.map((_, n) => `first${n}:1`);
    assert.deepEqual(brain.stage.started.toSorted(), firsts.toSorted());
    brain.stage.endAll();
    await endAll(brain, 2 * SESSIONS.length);
    for (const [n, session_id] of SESSIONS.entries()) {
      assert.deepEqual(await idsOf(brain.orchestrator, { session_id }), [`second${n}`, `first${n}`]);
    }
  },
);
