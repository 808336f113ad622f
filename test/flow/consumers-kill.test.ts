/** Consumers of all kinds side by side, while the brain is killed under load. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { begun } from '../fakes/consumer-programs.ts';
import { start } from './cli-process.ts';
import { aMoment, ConsumerSite, EACH } from './consumer-kit.ts';
import { isDatabase, LASTING, onStores } from './flow-kit.ts';
import { serve, testFolder } from './server-process.ts';

const JOBS = 200;
/** Names of attempts as a command sees them: the number of the attempt is in the name of its folder. */
const SCRIPT = 'echo "began $JOB_ID:$(basename "$(dirname "$PWD")" | sed s/.*3a//) 0" >> "$0"; echo "{}"';

onStores(
  'a brain that is killed under load loses no job, and no token is run twice by its consumers',
  LASTING,
  async (t, data) => {
    const folder = testFolder(t);
    const port = await freePort();
    const store = isDatabase(data) ? { store: 'mariadb', mariadb: { url: data } } : {};
    const config = { ...store, orchestrator: { retry: { base_delay_ms: 10, max_delay_ms: 10 } } };
    const open = () => serve(t, { data: join(folder, 'data'), port, config });
    let brain = await open();
    const site = new ConsumerSite(t, brain.url, folder);
    const consumers = EACH.map((language) => site.start(language, { leaseTtlMs: 120_000, slots: 8 }));
    const words = ['consume', '--pool', 'p', '--type', 'work', '--slots', '4', '--lease', '120s'];
    const state = ['--state', join(folder, 'state'), '--url', brain.url];
    const commands = start([...words, ...state, '--', 'sh', '-c', SCRIPT, site.ledger]);
    t.after(async () => {
      commands.child.kill('SIGKILL');
      await commands.ended;
    });
    while ((await site.consumers()).length < 3) await aMoment();

    const ids = Array.from({ length: JOBS }, (_, n) => `job${n}`);
    const submitted = (async () => {
      for (const id of ids) await site.submit(id, { do: 'note' });
    })();
    for (const enough of [40, 120]) {
      while (begun(site.ledger).length < enough) await aMoment();
      await brain.kill();
      brain = await open();
    }
    await submitted;
    for (const id of ids) assert.equal((await site.ended(id)).state, 'succeeded', id);
    const tokens = begun(site.ledger);
    assert.deepEqual(tokens.length, new Set(tokens).size, 'a token has run twice');
    assert.equal(new Set(tokens.map((token) => token.split(':')[0])).size, JOBS);
    for (const { child } of consumers) assert.equal(child.exitCode, null);
    assert.ok(existsSync(site.ledger) && / 0$/m.test(readFileSync(site.ledger, 'utf8')), 'commands ran too');
  },
);

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}
