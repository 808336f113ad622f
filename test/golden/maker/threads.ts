/**
 * The happenings of v7: sessions whose records name what backends have heard of them. Two runs of a brain, the same on every
 * store; at the end a turn waits for the seat with its conversation, which runs another job.
 */
import type { Backend } from '../../../src/core/ports/backend.ts';
import { type Behaviour, ends, RUNS } from './executor.ts';
import { type Stage, submit } from './script.ts';

const SEAT = { kind: 'test', slots: 1, types: ['inference'], labels: {}, keepsResults: true, paid: true } as const;

/** The one seat takes the jobs of `left`, the other one those of `right`. */
export const THREAD_SEATS: readonly Backend['info'][] = [
  { ...SEAT, name: 'left', models: ['l', 'both'], registry: 'left-1' },
  { ...SEAT, name: 'right', models: ['r', 'both'], registry: 'right-1' },
];

const says = (id: string, messages: number, hash: string): Behaviour =>
  ends({ ok: true, resultText: '{"text":"said"}', thread: { id, messages, hash } });

/** By token; every other attempt succeeds at once, without a thread. */
export const THREAD_BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  'talk-1:1': says('https://chat.example/left/1', 2, 'left-after-2'),
  'talk-2:1': says('https://chat.example/right/1', 4, 'right-after-4'),
  'other:1': RUNS,
};

export async function firstTalks(stage: Stage): Promise<void> {
  const talk = { session_id: 'talk' };
  await submit(stage, { 'talk-1': { ...talk, model: 'l', prompt: 'one' } });
  await submit(stage, { 'plain-1': { session_id: 'plain', model: 'l', prompt: 'one' } });
  await stage.world.settled(stage.brain.checkpoint());
  await submit(stage, { 'talk-2': { ...talk, model: 'r', prompt: 'two' } });
}

export async function secondTalks(stage: Stage): Promise<void> {
  await submit(stage, { other: { model: 'r', prompt: 'else' } });
  await submit(stage, { 'talk-3': { session_id: 'talk', model: 'both', prompt: 'three' } });
}
