/**
 * The happenings of v8: the mode of governance with its limits, what modules have handled, the tools of MCP servers and a
 * task that one of them runs, a schedule and a batch. Two runs of a brain, the same on every store; at the end jobs wait
 * because of the mode.
 */
import type { Backend } from '../../../src/core/ports/backend.ts';
import { type Behaviour, RUNS } from './executor.ts';
import { type Stage, submit } from './script.ts';

export const GOVERNED_SEAT: Backend['info'] = {
  name: 'seat',
  kind: 'test',
  slots: 4,
  types: ['inference', 'plain', 'count'],
  models: ['m'],
  labels: {},
  keepsResults: true,
  paid: false,
  registry: 'seat-1',
};

export const GOVERNED_BEHAVIOURS: Readonly<Record<string, Behaviour>> = { 'bounded:1': RUNS };

export const GOVERNED_CONFIG = `
governance:
  modes: [{mode: ALERT, per_minute: {others: 2}, max_tokens: 50}]
  rules:
    - {name: no-count, effect: deny, types: [count], modes: [NORMAL], reason: "nobody counts"}
    - {name: never, effect: deny, types: [erase], critical: true}
`;

const definition = (text: string): string => JSON.stringify({ name: text, inputSchema: { type: 'object' } });

export async function firstRules(stage: Stage): Promise<void> {
  const { brain, world } = stage;
  await world.settled(brain.submit({ job_id: 'denied', type: 'count' }).catch(() => undefined));
  const set = { mode: 'ALERT', why: 'too many failures' } as const;
  await world.settled(brain.governance.setByPerson(set, 'ann'));
  await submit(stage, { bounded: { model: 'm', prompt: 'long?' } });
  await submit(stage, { 'plain-1': { type: 'plain' }, 'plain-2': { type: 'plain' }, 'plain-3': { type: 'plain' } });
  const echo = { server: 'notes', tool: 'echo', hash: 'echo-1', definition: definition('echo') };
  const read = { server: 'notes', tool: 'read', hash: 'read-1', definition: definition('read') };
  await world.settled(brain.mcp.seen([echo, read]));
  await world.settled(brain.checkpoint());
  await world.settled(brain.mcp.allow({ ...read, hash: 'read-2', definition: definition('read') }, 'ann'));
  await world.settled(brain.mcp.taskBegun('bounded:1', { server: 'notes', taskId: 'task-7' }));
  await world.settled(brain.moduleMarks.write('mailer', [[1, 3], [5, 9]], 'mailer'));
}

export async function secondRules(stage: Stage): Promise<void> {
  const { brain, world } = stage;
  const caller = { tenant: 'default', by: 'ann', source: 'api' } as const;
  const nightly = { cron: '0 3 * * *', job: { type: 'plain', payload: 'night' } };
  await world.settled(brain.schedules.set('nightly', nightly, caller));
  await world.settled(brain.batches.put({ batch_id: 'b', name: 'a batch' }));
  await world.settled(brain.submit({ job_id: 'broken', type: 'erase' }).catch(() => undefined));
  await submit(stage, { 'in-batch': { type: 'plain', batch: 'b' } });
}
