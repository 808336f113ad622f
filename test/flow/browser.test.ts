/** The event stream in a page of a real browser, whose EventSource we did not write. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { type Browser, chromium, type Page } from 'playwright-core';
import { OrchdClient } from '../../src/client/client.ts';
import { needDebian } from '../fakes/debian.ts';
import { until } from './cli-process.ts';
import { serve, Talker, testFolder } from './server-process.ts';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A browser waits seconds before it connects again. */
const PATIENT = { timeout: 120_000 };

let browser: Browser;

before(async () => {
  browser = await chromium.launch({ executablePath: await needDebian('chromium'), args: FLAGS });
});
after(() => browser?.close());

interface Heard {
  readonly id: string;
  readonly event: string;
  readonly data: { readonly t?: string; readonly i?: number; readonly state?: string };
}

/** Runs in the page: follows a job as any page would, and never closes the stream by itself. */
function follow(url: string): void {
  const source = new EventSource(url);
  const page = globalThis as unknown as { hear(text: string): void; source: EventSource };
  page.source = source;
  for (const event of ['queued', 'started', 'token', 'reset', 'end', 'error']) {
    source.addEventListener(event, (message) => {
      // Without data it is the browser that speaks: the connection was lost.
      const { lastEventId: id, data } = message as MessageEvent;
      if (data !== undefined) page.hear(JSON.stringify({ id, event, data: JSON.parse(data) }));
    });
  }
}

const isClosed = (page: Page): Promise<boolean> =>
  page.evaluate(() => (globalThis as unknown as { source: EventSource }).source.readyState === 2);

async function pageAt(t: TestContext, url: string): Promise<{ page: Page; heard: Heard[] }> {
  const page = await browser.newPage();
  t.after(() => page.close());
  const heard: Heard[] = [];
  await page.exposeFunction('hear', (text: string) => heard.push(JSON.parse(text)));
  await page.goto(url);
  return { page, heard };
}

const words = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, at) => `word-${from + at} `).join('');

test('an EventSource in a page follows a job over kills of the brain and sees every token once, to the end', {
  timeout: 120_000,
}, async (t) => {
  const data = join(testFolder(t), 'data');
  const talker = new Talker();
  await talker.listen(t);
  const types = { talk: { argv: talker.argv, split: 'space' } };
  const config = { backends: { demo: false, commands: [{ name: 'talker', types }] } };
  let brain = await serve(t, { data, config });
  const { port } = brain;
  const { page, heard } = await pageAt(t, `${brain.url}/health`);
  const client = new OrchdClient({ url: brain.url });
  await client.submit({ job_id: 'long', type: 'talk' });
  await page.evaluate(follow, '/v2/tasks/long/events');
  const tokens = (): Heard[] => heard.filter(({ event }) => event === 'token');

  await talker.say(words(0, 500));
  await until(() => tokens().length >= 500);
  await brain.kill();
  await talker.say(words(500, 1000));
  brain = await serve(t, { data, config, port });
  await talker.say(words(1000, 1500));
  await until(() => tokens().length >= 1500);
  // The last words and the end are said while there is no brain to hear them.
  await brain.kill();
  await talker.say(words(1500, 2000));
  await talker.end();
  await serve(t, { data, config, port });

  await until(() => heard.at(-1)?.event === 'end');
  await until(() => isClosed(page));
  assert.equal(
    tokens()
      .map(({ data: token }) => token.t)
      .join(''),
    words(0, 2000),
  );
  assert.deepEqual(
    tokens().map(({ data: token }) => token.i),
    Array.from({ length: 2000 }, (_, at) => at),
  );
  assert.equal(new Set(tokens().map(({ id }) => id)).size, 2000);
  assert.deepEqual(
    heard.filter(({ event }) => event !== 'token' && event !== 'queued').map(({ event }) => event),
    ['started', 'end'],
  );
  assert.equal(heard.at(-1)?.data.state, 'succeeded');
});

/** The client of OpenAI as it is published: modules that a browser can load. */
const OPENAI = join(import.meta.dirname, '..', '..', 'node_modules', 'openai');

/** The origin of a page that is not the brain's. */
async function foreignOrigin(t: TestContext): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    if (!url.startsWith('/openai/')) return response.setHeader('content-type', 'text/html').end('a page');
    const file = readFileSync(join(OPENAI, url.slice('/openai/'.length)));
    return response.setHeader('content-type', 'text/javascript').end(file);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Runs in the page: submits as a program would, and says how that went. */
async function submit({ url, job_id }: { url: string; job_id: string }): Promise<unknown[]> {
  try {
    const response = await fetch(`${url}/v2/tasks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-correlation-id': 'from-a-page' },
      body: JSON.stringify({ job_id, prompt: 'one two three' }),
    });
    return [response.status, response.headers.get('x-correlation-id')];
  } catch (error) {
    return [(error as Error).name];
  }
}

/** Runs in the page: a request so simple that the browser does not ask before it sends it. */
const read = (url: string): Promise<number | string> =>
  fetch(`${url}/health`).then(
    ({ status }) => status,
    ({ name }) => name,
  );

test(
  'pages of an allowed origin may submit and follow; pages of any other learn nothing',
  PATIENT,
  async (t) => {
    const allowed = await foreignOrigin(t);
    const config = { server: { allowed_origins: [allowed] } };
    const brain = await serve(t, { data: join(testFolder(t), 'data'), config });
    const theirs = await pageAt(t, allowed);
    assert.deepEqual(await theirs.page.evaluate(submit, { url: brain.url, job_id: 'theirs' }), [
      202,
      'from-a-page',
    ]);
    assert.equal(await theirs.page.evaluate(read, brain.url), 200);
    await theirs.page.evaluate(follow, `${brain.url}/v2/tasks/theirs/events`);
    await until(() => theirs.heard.at(-1)?.event === 'end');
    await until(() => isClosed(theirs.page));

    const other = await pageAt(t, await foreignOrigin(t));
    assert.deepEqual(await other.page.evaluate(submit, { url: brain.url, job_id: 'other' }), ['TypeError']);
    assert.equal(await other.page.evaluate(read, brain.url), 'TypeError');
    await other.page.evaluate(follow, `${brain.url}/v2/tasks/theirs/events`);
    await until(() => isClosed(other.page));
    assert.deepEqual(other.heard, []);
    const { jobs } = await new OrchdClient({ url: brain.url }).list();
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      ['theirs'],
    );
  },
);

/** Runs in the page: asks as any page does that has OpenAI's client. */
async function chat({ url, client }: { url: string; client: string }): Promise<unknown[]> {
  const { default: OpenAI } = (await import(client)) as typeof import('openai');
  const openai = new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: 'any',
    maxRetries: 0,
    dangerouslyAllowBrowser: true,
  });
  const asked = { model: 'demo', messages: [{ role: 'user' as const, content: 'one two three' }] };
  try {
    const { data: stream, response } = await openai.chat.completions
      .create({ ...asked, stream: true })
      .withResponse();
    let text = '';
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    const none = await openai.models.retrieve('none').catch((error) => error.code);
    return [text.includes('one two three'), typeof response.headers.get('x-orchd-job-id'), none];
  } catch (error) {
    return [(error as Error).constructor.name];
  }
}

test("OpenAI's own client works in a page of an allowed origin, and in no other", PATIENT, async (t) => {
  const [allowed, other] = [await foreignOrigin(t), await foreignOrigin(t)];
  const config = { server: { allowed_origins: [allowed] } };
  const brain = await serve(t, { data: join(testFolder(t), 'data'), config });
  const ask = async (origin: string): Promise<unknown[]> => {
    const { page } = await pageAt(t, origin);
    return page.evaluate(chat, { url: brain.url, client: `${origin}/openai/index.mjs` });
  };
  assert.deepEqual(await ask(allowed), [true, 'string', 'MODEL_NOT_FOUND']);
  assert.deepEqual(await ask(other), ['APIConnectionError']);
});
