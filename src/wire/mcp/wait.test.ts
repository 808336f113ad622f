import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turns } from '../../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../../test/flow/virtual-env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Progress, ToolContext } from './tool.ts';
import { readUntil } from './wait.ts';

function stage() {
  const world = new VirtualEnv();
  const stop = new AbortController();
  const told: Progress[] = [];
  const { clock, timers } = world;
  const context = {
    clock,
    timers,
    signal: stop.signal,
    onProgress: (each: Progress) => told.push(each),
  } as unknown as ToolContext;
  return { world, stop, told, context };
}

const how = { isDone: (state: string) => state === 'ended', describe: (state: string) => state };

test('a wait ends with what it waits for, and tells each change and that it goes on', async () => {
  const { world, told, context } = stage();
  let state = 'queued';
  const waiting = readUntil(async () => state, how, 30_000, context);
  await turns();
  await world.pass(100);
  state = 'running';
  await world.pass(12_000);
  state = 'ended';
  await world.pass(2000);
  assert.equal(await waiting, 'ended');
  assert.deepEqual(
    told.map(({ message }) => message),
    ['queued', 'running', 'running', 'running'],
  );
  assert.ok(
    told.every(({ progress, total }, at) => total === 30_000 && progress >= (told[at - 1]?.progress ?? 0)),
  );
});

test('a wait is over in time with what is known by then', async () => {
  const { world, context } = stage();
  const waiting = readUntil(async () => 'running', how, 1000, context);
  await turns();
  await world.pass(1000);
  assert.equal(await waiting, 'running');
  assert.equal(await readUntil(async () => 'running', how, 0, context), 'running', 'without waiting');
});

test('a brain that cannot be reached is asked again until the time is over; a refusal is told at once', async () => {
  const { world, told, context } = stage();
  let reads = 0;
  const down = async (): Promise<string> => {
    reads += 1;
    throw new OrchdError('UNREACHABLE');
  };
  const waiting = assert.rejects(readUntil(down, how, 5000, context), { code: 'UNREACHABLE' });
  await turns();
  await world.pass(5000);
  await waiting;
  assert.ok(reads > 3);
  assert.equal(told[0]?.message, 'orchd cannot be reached');
  const unknown = async (): Promise<string> => {
    throw new OrchdError('NOT_FOUND');
  };
  await assert.rejects(readUntil(unknown, how, 5000, context), { code: 'NOT_FOUND' });
});

test('a wait that is cancelled ends at once', async () => {
  const { stop, context } = stage();
  let reads = 0;
  const read = async (): Promise<string> => {
    reads += 1;
    return 'running';
  };
  const waiting = readUntil(read, how, 50_000, context);
  stop.abort();
  assert.equal(await waiting, 'running');
  assert.ok(reads <= 2);
});
