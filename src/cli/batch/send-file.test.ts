import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobSource, OrchdClient } from '../../client/client.ts';
import { LineNames } from './line-names.ts';
import { FileSender } from './send-file.ts';
import type { SourceFile } from './source-file.ts';

const FULL = {
  http_status: 429,
  error: { code: 'QUEUE_FULL', message: 'full', retriable: true, retry_after_ms: 1 },
};
const NO_DEPENDENCY = {
  http_status: 422,
  error: { code: 'ADMISSION_REJECT', message: 'no job', reason: 'unknown_dependency', retriable: false },
};
const ADMITTED = { http_status: 202 };

/** Sends three lines to a brain that gives these answers, round by round. */
async function sent(isPatient: boolean, rounds: readonly object[][]) {
  const got: number[] = [];
  const client = {
    async *submitLines(source: JobSource) {
      const answers = rounds[got.length] ?? [];
      let count = 0;
      for await (const piece of source) count += (piece as string[]).length;
      got.push(count);
      yield* answers;
    },
  } as unknown as OrchdClient;
  const file = {
    async *read() {
      yield ['"a"', '"b"', '"c"'].map((text, at) => ({ number: at + 1, bytes: Buffer.from(text) }));
    },
  } as unknown as SourceFile;
  const sender = new FileSender(client, file, {
    batch: 'b',
    defaults: {},
    names: new LineNames(),
    hasFaults: false,
    isPatient,
    signal: new AbortController().signal,
    onReconnect: () => undefined,
    onProgress: () => undefined,
    onWait: () => undefined,
  });
  const left = await sender.run();
  const { submitted, there, refused } = sender.counts;
  return { left: left?.code, counts: [submitted, there, refused], got };
}

test('a line that waits for one without room has no final answer: it is sent again with that one', async () => {
  assert.deepEqual(
    await sent(true, [
      [FULL, NO_DEPENDENCY, ADMITTED],
      [ADMITTED, ADMITTED],
    ]),
    {
      left: undefined,
      counts: [3, 0, 0],
      got: [3, 2],
    },
  );
});

test('without patience it stops, and says why', async () => {
  const { left, counts } = await sent(false, [[FULL, NO_DEPENDENCY, ADMITTED]]);
  assert.deepEqual([left, counts], ['QUEUE_FULL', [1, 0, 0]]);
});

test('a dependency that does not exist is a refusal where there was room', async () => {
  const { left, counts } = await sent(true, [
    [ADMITTED, NO_DEPENDENCY, { ...ADMITTED, duplicate_of: 'job_id' }],
  ]);
  assert.deepEqual([left, counts], [undefined, [1, 1, 1]]);
});
