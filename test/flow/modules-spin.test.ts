/**
 * A module that spins beside a server without one, at the same time on the same machine: heartbeats and streams come from
 * both. MODULE_SPIN_SEC=60 has it spin for a minute.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ModuleView } from '../../src/model/http/modules.ts';
import { until } from '../fakes/module-kit.ts';
import { serve, testFolder } from './server-process.ts';

const SPIN_SEC = Number(process.env['MODULE_SPIN_SEC'] ?? 4);
const HEADERS = { 'content-type': 'application/json' };
/** Of what the other server sends. A loop that is blocked sends nothing at all; chance takes some from either. */
const SHARE = 0.5;

const BACKENDS = {
  commands: [{ name: 'sh', types: { talk: { argv: ['sh', '-c', 'while echo word; do sleep 0.02; done'] } } }],
};

interface Heard {
  /** Comments in the stream of a job that waits. */
  heartbeats: number;
  /** Pieces of the stream of a job that talks: what is held up comes in fewer of them. */
  pieces: number;
}

/** A server, and how much it has sent so far. */
class Listened {
  readonly url: string;
  readonly #t: TestContext;
  readonly heard: Heard = { heartbeats: 0, pieces: 0 };

  private constructor(t: TestContext, url: string) {
    this.#t = t;
    this.url = url;
  }

  static async on(t: TestContext, name: string, modules: readonly object[]): Promise<Listened> {
    const data = join(testFolder(t), name);
    const config = { backends: BACKENDS, server: { heartbeat_ms: 50 }, modules };
    const { url } = await serve(t, { data, config });
    const site = new Listened(t, url);
    await site.#submit({ job_id: 'waits', type: 'talk', payload: 1, not_before: Date.now() + 1e9 });
    await site.#submit({ job_id: 'talks', type: 'talk', payload: 1 });
    await site.#listen('waits', (text) => {
      site.heard.heartbeats += text.split('\n').filter((line) => line.startsWith(':')).length;
    });
    await site.#listen('talks', () => {
      site.heard.pieces++;
    });
    await until(() => site.heard.heartbeats > 0 && site.heard.pieces > 1);
    return site;
  }

  async modules(): Promise<ModuleView[]> {
    const { modules } = (await (await fetch(`${this.url}/v2/modules`)).json()) as { modules: ModuleView[] };
    return modules;
  }

  async #submit(body: object): Promise<void> {
    const request = { method: 'POST', headers: HEADERS, body: JSON.stringify(body) };
    assert.equal((await fetch(`${this.url}/v2/tasks`, request)).status, 202);
  }

  async #listen(job: string, hear: (text: string) => void): Promise<void> {
    const abort = new AbortController();
    this.#t.after(() => abort.abort());
    const { body } = await fetch(`${this.url}/v2/tasks/${job}/events`, { signal: abort.signal });
    const read = async (): Promise<void> => {
      for await (const text of body!.pipeThrough(new TextDecoderStream())) hear(text);
    };
    // It ends with the server, or with the test.
    read().catch(() => undefined);
  }
}

/** Spins from the moment that `go` is there, in each of the places where a module can; one proposes meanwhile. */
const SPINNING: Readonly<Record<string, (spin: string) => string>> = {
  scan: (spin) => `export async function scan() { ${spin} return []; }`,
  import: (spin) => `${spin} export const scan = () => [];`,
  prints: (spin) =>
    `export async function* scan() { ${spin.replace('; );', '; ) { yield { key: "k", type: "talk", not_before: 1e14 }; await new Promise((resolve) => setTimeout(resolve, 20)); }')} }`,
};

const since = ({ heard }: Listened, before: Heard): Heard => ({
  heartbeats: heard.heartbeats - before.heartbeats,
  pieces: heard.pieces - before.pieces,
});

test('[FANO-10] modules that spin delay no heartbeat and no stream', {
  timeout: 60_000 + 3000 * SPIN_SEC,
}, async (t) => {
  const folder = testFolder(t);
  const go = join(folder, 'go');
  const spin = `await new Promise((resolve) => { const look = setInterval(() => { if (existsSync(${JSON.stringify(go)})) { clearInterval(look); resolve(); } }, 10); });
for (const end = Date.now() + ${SPIN_SEC * 1000}; Date.now() < end; );`;
  const modules = Object.entries(SPINNING).map(([name, source]) => {
    const file = join(folder, `${name}.mjs`);
    writeFileSync(file, `import { existsSync } from 'node:fs';\n${source(spin)}`);
    return { name, file, interval_sec: 3600, timeout_sec: 600 };
  });
  const [busy, calm] = await Promise.all([Listened.on(t, 'busy', modules), Listened.on(t, 'calm', [])]);
  const before = { busy: { ...busy.heard }, calm: { ...calm.heard } };
  writeFileSync(go, '');
  // They spin now; the scans end after them.
  await until(async () => (await busy.modules()).every(({ scans }) => scans === 1), 3 * SPIN_SEC * 1000);
  const [fromBusy, fromCalm] = [since(busy, before.busy), since(calm, before.calm)];
  console.log(
    `# beside ${modules.length} modules that spin: ${JSON.stringify(fromBusy)}, without: ${JSON.stringify(fromCalm)}`,
  );
  for (const what of ['heartbeats', 'pieces'] as const)
    assert.ok(
      fromBusy[what] >= SHARE * fromCalm[what],
      `${fromBusy[what]} of ${fromCalm[what]} ${what} came`,
    );
  const errors = (await busy.modules()).map(({ last_error }) => last_error);
  assert.deepEqual(errors, [undefined, undefined, undefined]);
});
