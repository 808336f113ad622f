import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import { test } from 'node:test';
import { makeSpoolKit } from '../../../test/fakes/spool-kit.ts';
import { realEnv } from '../../kit/env/real.ts';
import { RealDisk } from '../../kit/env/real-disk.ts';
import { IncomingJobs } from './incoming.ts';

/** Cannot list a folder. */
class UnreadableDisk extends RealDisk {
  // biome-ignore lint/correctness/useYield: it fails before the first piece.
  override async *entries(): AsyncGenerator<never> {
    throw Object.assign(new Error('unreadable'), { code: 'EIO' });
  }
}

test('a folder that cannot be listed is not watched any more when the follower gives up', async (t) => {
  const env = { ...realEnv(), disk: new UnreadableDisk() };
  const { spool } = await makeSpoolKit(t, { env });
  let open = 0;
  t.mock.method(fs, 'watch', () => {
    open++;
    return Object.assign(new EventEmitter(), { close: () => void open-- });
  });
  const incoming = new IncomingJobs(env, spool, spool.logger, {
    onNews: () => undefined,
    isOurs: () => false,
  });
  await assert.rejects(incoming.follow(new AbortController().signal), { code: 'EIO' });
  assert.equal(open, 0);
});

test('a job that was refused is not tried again because of what its own try has changed', async (t) => {
  const env = realEnv();
  const kit = await makeSpoolKit(t, { env });
  kit.put('incoming/job', {});
  let notify: (event: string, name: string) => void = () => undefined;
  t.mock.method(fs, 'watch', (_folder: string, _options: object, listener: typeof notify) => {
    notify = listener;
    return Object.assign(new EventEmitter(), { close: () => undefined });
  });
  const tried: string[] = [];
  const stop = new AbortController();
  const incoming = new IncomingJobs(env, kit.spool, kit.spool.logger, {
    onNews: () => {
      const { name } = incoming.next() ?? { name: 'nothing' };
      tried.push(name);
      incoming.keep(name, 'it may not be moved');
      // Its lock came and went, and so did the job.
      for (const changed of ['job.lock', 'job', 'other']) notify('rename', changed);
      if (tried.length === 2) stop.abort();
    },
    isOurs: () => false,
  });
  await incoming.follow(stop.signal);
  assert.deepEqual(tried, ['job', 'other']);
});
