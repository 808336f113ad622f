/** Consumers of all kinds side by side, while the brain is killed under load. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePort } from '../../src/kit/free-port.ts';
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
    const port = String(await freePort());
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

for (const language of EACH) {
  test(`${language}: a brain that is killed hears again what a running job has said`, async (t) => {
    const folder = testFolder(t);
    const port = String(await freePort());
    const open = () => serve(t, { data: join(folder, 'data'), port });
    const brain = await open();
    const site = new ConsumerSite(t, brain.url, folder);
    const consumer = site.start(language, { leaseTtlMs: 3000 });
    const until = join(folder, 'go');
    const words = ['one ', 'two ', 'three'];
    await site.submit('said', { do: 'say', words, until });
    await consumer.saw(/said said:1/);
    await hears(brain.url, 'three');
    await brain.kill();
    await open();
    await hears(brain.url, 'three');
    writeFileSync(until, '');
    const { state, attempts } = await site.ended('said');
    assert.deepEqual([state, attempts.length], ['succeeded', 1]);
  });
}

/** Follows the job until it says this word, which is its last. */
async function hears(url: string, word: string): Promise<void> {
  const answer = await fetch(`${url}/v2/tasks/said/events`);
  let heard = '';
  for await (const piece of answer.body ?? []) {
    heard += Buffer.from(piece).toString();
    if (heard.includes(`"t":"${word}"`)) return;
  }
  assert.fail(`the stream has ended: ${heard}`);
}
