import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { outboundError } from '../wire/exchange.ts';
import type { OutboundReply } from '../wire/outbound.ts';
import { HopWatch } from './hop-watch.ts';

const INTERVAL_MS = 100;

interface Hop {
  readonly virtual: VirtualEnv;
  readonly watch: HopWatch;
  /** Answers the next questions of the watch. */
  answer: () => Promise<OutboundReply>;
  asked: number;
}

const answered = async (): Promise<OutboundReply> => ({ status: 200, headers: {}, body: Buffer.alloc(0) });
const lost = (): Promise<never> => Promise.reject(outboundError('timeout', 'GET', 'no answer'));
const busy = (): never => {
  throw outboundError('busy', 'GET', 'all connections are in use');
};

function hopOf(): Hop {
  const virtual = new VirtualEnv();
  const target = {
    request: () => {
      hop.asked++;
      return hop.answer();
    },
  };
  const watch = new HopWatch({ timers: virtual.timers, target, intervalMs: INTERVAL_MS });
  const hop: Hop = { virtual, watch, answer: answered, asked: 0 };
  return hop;
}

test('a leader that answers is never given up, and one that misses three questions in a row is', async () => {
  const hop = hopOf();
  let silent = 0;
  for (let n = 0; n < 2; n++) hop.watch.add(() => silent++);
  await hop.virtual.pass(100 * INTERVAL_MS);
  assert.deepEqual([silent, hop.asked], [0, 100], 'one question for all');
  hop.answer = lost;
  await hop.virtual.pass(2 * INTERVAL_MS);
  hop.answer = answered;
  await hop.virtual.pass(INTERVAL_MS);
  hop.answer = lost;
  await hop.virtual.pass(2 * INTERVAL_MS);
  assert.equal(silent, 0);
  await hop.virtual.pass(INTERVAL_MS);
  assert.equal(silent, 2);
});

test('a node without a free connection does not take its leader for silent', async () => {
  const hop = hopOf();
  hop.answer = busy;
  hop.watch.add(() => assert.fail('the leader was given up'));
  await hop.virtual.pass(10 * INTERVAL_MS);
});

test('nobody is asked while no answer is awaited', async () => {
  const hop = hopOf();
  const end = hop.watch.add(() => undefined);
  await hop.virtual.pass(INTERVAL_MS);
  end();
  await hop.virtual.pass(10 * INTERVAL_MS);
  assert.equal(hop.asked, 1);
  hop.watch.add(() => undefined);
  await hop.virtual.pass(INTERVAL_MS);
  assert.equal(hop.asked, 2);
});
