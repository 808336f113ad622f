import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedConnection } from './shared-connection.ts';
import type { Sql } from './sql.ts';

const LOST = Object.assign(new Error('the connection was given up'), { fatal: true });

test('work that is under way when the connection is closed makes no second one', async () => {
  let connections = 0;
  const closed = Promise.withResolvers<never>();
  const connect = async (): Promise<Sql> => {
    connections++;
    return { close: async () => closed.reject(LOST) } as unknown as Sql;
  };
  const shared = new SharedConnection(connect);
  const reading = shared.read(() => closed.promise);
  await shared.get();
  await shared.close();
  await assert.rejects(reading);
  await assert.rejects(shared.get(), { code: 'SHUTTING_DOWN' });
  assert.equal(connections, 1);
});
