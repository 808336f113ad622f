/**
 * A file of 5,000 jobs while everything dies: the brain is killed twice, the command once. Run again it goes on, every job
 * runs once, and the results are complete and in the order of the file. On the journal; `CRASH_ALL=1` on MariaDB too.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { jsonLines, MAIN, orchd, start } from './cli-process.ts';
import { eventually } from './site-client.ts';
import { endsOf, Site } from './site-kit.ts';

const JOBS = 5000;
const SLOTS = 256;

/** On a slow machine no worker may be taken for lost: its free work would be run again, as it should be. */
const LOST_MS = 60_000;
const POOL = { health_timeout_ms: LOST_MS };
const PATIENT = { orchestrator: { recovery: { holder_lost_ms: LOST_MS, sweep_interval_ms: 100 } } };

let database: Promise<TestServer> | undefined;
after(async () => (await database)?.stop());

const STORES: Record<string, () => Promise<object>> = {
  'the journal': async () => ({}),
  MariaDB: async () => {
    database ??= testMariaDb();
    return { store: 'mariadb', mariadb: { url: await (await database).database() } };
  },
};

const walked = Object.entries(STORES).slice(0, process.env['CRASH_ALL'] === '1' ? undefined : 1);
for (const [store, config] of walked) {
  test(
    `on ${store}: the brain killed twice and the command once, every job runs once, and results are in order`,
    {
      timeout: 300_000,
    },
    async (t) => killed(t, await config()),
  );
}

/** Runs the command line at a real terminal, which `script` makes. */
class AtTerminal {
  /** Everything that was written to the terminal. */
  screen = '';
  /** The exit code. */
  readonly ended: Promise<number>;

  constructor(words: readonly string[]) {
    const command = `stty cols 100 rows 30; exec ${[process.execPath, MAIN, ...words].join(' ')}`;
    const child = spawn('script', ['-qefc', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      this.screen += piece;
    });
    this.ended = once(child, 'close').then(([code]) => code as number);
  }
}

async function killed(t: TestContext, config: object): Promise<void> {
  const site = await Site.start(endsOf(t), { config: { ...config, ...PATIENT }, pool: POOL, delayMs: 0 });
  await site.client.register('m', { slots: SLOTS });
  const path = join(site.folder, 'jobs.jsonl');
  const lines = Array.from({ length: JOBS }, (_, at) =>
    JSON.stringify({ prompt: `${at + 1}`, max_tokens: 3 }),
  );
  writeFileSync(path, lines.join('\n'));
  const words = ['submit', '--file', path, '--model', 'm'];
  const client = new OrchdClient({ url: site.brain.url });
  const { port } = site.brain;
  const restart = async (): Promise<void> => {
    await site.brain.kill();
    await site.startBrain({ port });
  };

  // The command is killed as soon as the brain has some of its jobs.
  const first = start(words, { env: { ORCHD_URL: site.brain.url } });
  const batch = (await first.saw('out', /f-[0-9a-f]{16}\n/)).trim();
  await eventually('some jobs are in', async () => (await client.batch(batch)).jobs > 0);
  first.child.kill('SIGKILL');
  await first.ended;

  // The brain is killed while the second run of the command sends, and while jobs run.
  const second = start(words, { env: { ORCHD_URL: site.brain.url } });
  await second.saw('out', new RegExp(batch));
  await eventually('some jobs have run', async () => site.ledger.length > 0);
  await restart();
  const submitted = await second.ended;
  assert.equal(submitted.code, 0, submitted.err);
  const said = submitted.err.replaceAll(',', '');
  const counts = /: (\d+) submitted(?: (\d+) already there)?\.$/m.exec(said) ?? [];
  assert.equal(Number(counts[1]) + Number(counts[2] ?? 0), JOBS, said);

  // The brain is killed while somebody watches at a terminal.
  const waiting = new AtTerminal(['wait', batch, '--url', site.brain.url]);
  await eventually('the bar is there', async () => /jobs ended/.test(waiting.screen));
  const running = site.ledger.length;
  await eventually('more jobs have run', async () => site.ledger.length > Math.min(running, JOBS - 1));
  await restart();
  assert.equal(await waiting.ended, 0, waiting.screen);
  assert.match(waiting.screen, /\[[#.]{10}\] [\d,]+ of 5,000 jobs ended/);
  assert.match(waiting.screen, /5,000 succeeded\./);

  const { code, out } = await orchd(['results', batch], { env: { ORCHD_URL: site.brain.url } });
  assert.equal(code, 0);
  const results = jsonLines(out);
  assert.deepEqual(
    results.map(({ line, job_id }) => [line, job_id]),
    lines.map((_, at) => [at + 1, `${batch}.${at + 1}`]),
  );
  const begun = site.ledger.map((token) => token.slice(0, token.lastIndexOf(':')));
  assert.equal(new Set(begun).size, JOBS);
  const twice = begun.filter((id, at) => begun.indexOf(id) !== at);
  const attempts = await Promise.all(twice.slice(0, 3).map(async (id) => (await client.get(id)).attempts));
  assert.equal(begun.length, JOBS, `no job has run twice: ${JSON.stringify(attempts)}`);
  t.diagnostic(said.trim());
}
