/** Whoever leaves a stream before it has begun. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { httpBrain } from '../fakes/http-brain.ts';

test('[ORCH-1072] a follower that leaves while it is let in takes its interactive job along', async (t) => {
  const brain = await httpBrain({ disconnectGraceMs: 1 });
  t.after(() => brain.stop());
  const { orchestrator } = brain;
  await orchestrator.submit({ prompt: 'p', job_id: 'a', priority: 'interactive' });
  // The follower is in its place before it reads the job.
  const looked = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const { reads } = orchestrator;
  const read = reads.jobWithResult.bind(reads);
  reads.jobWithResult = async (...args) => {
    looked.resolve();
    await left.promise;
    return read(...args);
  };
  const socket = connect(brain.port, '127.0.0.1');
  socket.write('GET /v2/tasks/a/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
  await looked.promise;
  socket.destroy();
  await once(socket, 'close');
  // The server hears of it in the meantime: an answer that it gives comes after that.
  await fetch(`${brain.url}/health`);
  left.resolve();
  assert.equal((await orchestrator.wait('a')).state, 'cancelled');
});
