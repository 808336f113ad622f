/** What a scrape of /metrics over HTTP says of jobs, requests, tokens, the disk and the process. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { OrchdClient } from '../../src/client/index.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { start } from './cli-process.ts';
import { onStores, placed, STORES, within } from './flow-kit.ts';

/** For a loop of scrapes that would otherwise never end where the code is wrong. */
const PATIENCE_MS = 60_000;

const PAGE = join(import.meta.dirname, '../../docs/operations/metrics.md');

async function brainWith(t: TestContext, options: HttpBrainOptions): Promise<HttpBrain> {
  const brain = await httpBrain(placed(options));
  t.after(() => brain.stop());
  return brain;
}

const untilCancelled = (_payload: unknown, { signal }: FunctionContext): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('cancelled')));
  });

const scrape = async (url: string): Promise<string> => (await fetch(`${url}/metrics`)).text();

/** The value of a series as it is written; undefined where the scrape does not have it. */
function sampleOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

const linesOf = (text: string, name: string): string[] =>
  text.split('\n').filter((line) => line.startsWith(`${name}{`));

onStores(
  'a dead letter can be alerted on: ends are counted by state and reason, and no dead job is told as none',
  STORES,
  async (t, data) => {
    const types = {
      good: () => 'done',
      bad: () => {
        throw new Error('no');
      },
      slow: untilCancelled,
    };
    const brain = await brainWith(t, { data, backends: [{ name: 'here', slots: 4, types }] });
    const { orchestrator, url } = brain;
    const before = await scrape(url);
    assert.equal(sampleOf(before, 'orchd_jobs_dead_total{reason="failed"}'), 0);
    assert.equal(sampleOf(before, 'orchd_jobs_ended_total{state="dead"}'), 0);
    for (const type of ['good', 'bad', 'slow'])
      await orchestrator.submit({ job_id: type, type, max_tries: 1 });
    await orchestrator.submit({ job_id: 'late', type: 'slow', deadline_ms: 1 });
    await orchestrator.cancel('slow');
    for (const id of ['good', 'bad', 'slow', 'late']) await orchestrator.wait(id);
    const text = await scrape(url);
    const counted = ['succeeded', 'cancelled', 'dead'].map((state) =>
      sampleOf(text, `orchd_jobs_ended_total{state="${state}"}`),
    );
    assert.deepEqual(counted, [1, 1, 2]);
    assert.equal(sampleOf(text, 'orchd_jobs_dead_total{reason="failed"}'), 1);
    const deaths = linesOf(text, 'orchd_jobs_dead_total').map((line) => Number(line.split(' ').at(-1)));
    assert.equal(
      deaths.reduce((sum, each) => sum + each, 0),
      2,
    );
    assert.deepEqual(
      linesOf(text, 'orchd_jobs').filter((line) => /succeeded|dead|cancelled/.test(line)),
      [],
    );
  },
);

test('requests are counted by route, method and class of status, and never by what the caller has written', async (t) => {
  const brain = await brainWith(t, { limits: { maxBodyBytes: 1000 } });
  const { url } = brain;
  await scrape(url);
  for (let n = 0; n < 50; n++) await (await fetch(`${url}/v2/tasks/canary-${n}`)).text();
  const linesBefore = (await scrape(url)).split('\n').length;
  for (let n = 50; n < 200; n++) await (await fetch(`${url}/v2/tasks/canary-${n}?canary=${n}`)).text();
  for (let n = 0; n < 50; n++) await (await fetch(`${url}/canary/${n}`)).text();
  const post = async (body: string, type = 'application/json'): Promise<void> => {
    await (
      await fetch(`${url}/v2/tasks`, { method: 'POST', body, headers: { 'content-type': type } })
    ).text();
  };
  await post(JSON.stringify({ type: 't', wait_for_backend: true }));
  await post('{');
  await post('x'.repeat(2000));
  await post('x', 'text/plain');
  const text = await scrape(url);
  const requests = (labels: string) => sampleOf(text, `orchd_http_requests_total{${labels}}`);
  assert.equal(requests('route="/v2/tasks/:id",method="GET",status="4xx"'), 200);
  assert.equal(requests('route="none",method="GET",status="4xx"'), 50);
  assert.equal(requests('route="/v2/tasks",method="POST",status="2xx"'), 1);
  assert.equal(requests('route="/v2/tasks",method="POST",status="4xx"'), 3);
  assert.equal(requests('route="/metrics",method="GET",status="2xx"'), 2);
  const durations = 'orchd_http_request_duration_seconds_count{route="/v2/tasks",method="POST"}';
  assert.equal(sampleOf(text, durations), 4);
  const refused = (code: string) => sampleOf(text, `orchd_http_bodies_refused_total{code="${code}"}`);
  assert.deepEqual(
    [refused('INVALID_PARAMS'), refused('TOO_LARGE'), refused('UNSUPPORTED_MEDIA_TYPE')],
    [1, 1, 1],
  );
  assert.ok(!text.includes('canary'));
  // Three more routes with their durations, and the codes of refused bodies.
  assert.ok(text.split('\n').length < linesBefore + 100);
});

test('a stream is counted when it ends, and a caller that leaves as one that left', async (t) => {
  const types = { short: () => 'done', inference: untilCancelled };
  const backend = { name: 'here', slots: 2, types, models: ['tiny'] };
  const { url } = await brainWith(t, { backends: [backend] });
  const client = new OrchdClient({ url });
  await client.submit({ job_id: 'one', type: 'short' });
  for await (const _ of client.events('one'));
  const left = httpRequest(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  });
  left.on('error', () => undefined);
  const body = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] };
  left.end(JSON.stringify(body));
  // The server knows of the request once a scrape shows its job.
  const seen = async (what: (text: string) => boolean): Promise<string> => {
    for (;;) {
      const text = await scrape(url);
      if (what(text)) return text;
    }
  };
  await within(
    seen((text) => sampleOf(text, 'tasks_enqueued_total') === 2),
    PATIENCE_MS,
  );
  left.destroy();
  const line = 'orchd_http_requests_total{route="/v1/chat/completions",method="POST",status="left"}';
  const text = await within(
    seen((each) => sampleOf(each, line) === 1),
    PATIENCE_MS,
  );
  const events = linesOf(text, 'orchd_http_requests_total').filter((each) => each.includes('/events'));
  assert.equal(events.length, 1, events.join('\n'));
  assert.match(events[0]!, /status="2xx"} 1$/);
  const duration = linesOf(text, 'orchd_http_request_duration_seconds_count');
  assert.match(duration.find((each) => each.includes('/events'))!, / 0$/);
});

async function serve(t: TestContext, extra: readonly string[] = []): Promise<string> {
  const data = mkdtempSync(join(tmpdir(), 'orchd-metrics-'));
  const server = start(['up', '--port', '0', '--data', data, '--model', 'demo:parrot', ...extra]);
  t.after(async () => {
    server.child.kill('SIGTERM');
    await server.ended;
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
  const banner = await server.saw('err', /press Ctrl-C to stop/);
  return /listens on (\S+)/.exec(banner)![1]!;
}

test('a real server tells its tokens, its disk and its process, and the page of metrics has every name', async (t) => {
  const url = await serve(t);
  const client = new OrchdClient({ url });
  await client.submit({ job_id: 'one', model: 'parrot', prompt: 'three words here' });
  let tokenEvents = 0;
  for await (const { event } of client.events('one')) if (event === 'token') tokenEvents++;
  const { result } = await client.get('one');
  const { usage } = result as { usage: { prompt_tokens: number; completion_tokens: number } };
  let text = await scrape(url);
  // The folder is measured in the background.
  while (!text.includes('orchd_data_bytes{')) text = await scrape(url);
  const tokens = (direction: string) =>
    sampleOf(text, `orchd_model_tokens_total{model_ref="demo:parrot",direction="${direction}"}`);
  assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.deepEqual([tokens('in'), tokens('out')], [usage.prompt_tokens, usage.completion_tokens]);
  assert.ok(tokenEvents > 0);
  assert.equal(sampleOf(text, 'orchd_token_events_total'), tokenEvents);
  for (const series of [
    'orchd_commit_duration_seconds_count',
    'orchd_fsync_duration_seconds_count{part="log"}',
    'orchd_data_bytes{part="log"}',
    'orchd_data_bytes{part="history"}',
    'orchd_data_free_bytes',
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_heap_size_used_bytes',
    'nodejs_eventloop_time_seconds_total{state="active"}',
    ...(process.platform === 'linux' ? ['process_open_fds', 'process_max_fds'] : []),
  ])
    assert.ok((sampleOf(text, series) ?? 0) > 0, `${series}\n${text}`);
  const age = Date.now() / 1000 - sampleOf(text, 'process_start_time_seconds')!;
  assert.ok(age > 0 && age < 600);
  namesAreDocumented(text);
});

/** Every series belongs to a family with HELP and TYPE, and the families are those of the page. */
function namesAreDocumented(text: string): void {
  const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `(\w+)` \| (counter|gauge|histogram) \|/gm);
  const documented = Array.from(rows, ([, name, kind]) => `${name} ${kind}`).sort();
  const types = Array.from(text.matchAll(/^# TYPE (\w+ \w+)$/gm), ([, type]) => type!).sort();
  assert.deepEqual(types, documented);
  const helped = Array.from(text.matchAll(/^# HELP (\w+) \S/gm), ([, name]) => name!).sort();
  assert.deepEqual(
    helped,
    types.map((type) => type.split(' ')[0]!),
  );
  const families = new Set(helped);
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const name = /^\w+/.exec(line)![0];
    assert.ok(families.has(name) || families.has(name.replace(/_(bucket|sum|count)$/, '')), line);
  }
}
