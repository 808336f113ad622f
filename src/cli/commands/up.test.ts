import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeTerminal } from '../../../test/fakes/terminal.ts';
import type { RunningServer } from '../../app/parts.ts';
import { createLogger } from '../../kit/logger.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Terminal } from '../command.ts';
import { bannerText, ownCommand } from '../text/banner.ts';
import { stoppedText } from '../text/stop-text.ts';
import { runToEnd, stopEarly } from './up.ts';

function heard(): { terminal: Terminal; said: string[] } {
  const said: string[] = [];
  const { terminal } = fakeTerminal();
  return { terminal: { ...terminal, complain: (text) => said.push(text) }, said };
}

const logger = createLogger({ write: () => undefined, now: () => 0 });

class FakeServer {
  readonly url = 'http://127.0.0.1:1';
  failure: Error | undefined;
  stops = 0;

  stop = async (): Promise<void> => {
    this.stops++;
  };
}

test('a brain that fails ends the command with exit code 1, the reason and what to do', async () => {
  const server = new FakeServer();
  const { terminal, said } = heard();
  const ended = runToEnd(server as unknown as RunningServer, new Promise(() => undefined), logger, terminal);
  server.failure = new OrchdError('STORE_FAILED', 'the disk is gone');
  assert.equal(await ended, 1);
  assert.equal(server.stops, 1);
  assert.match(
    said.join('\n'),
    /the brain has stopped: the disk is gone\nCheck the disk or the database, then restart/,
  );
});

test('after a signal the server is stopped in order', async () => {
  const server = new FakeServer();
  const { terminal, said } = heard();
  assert.equal(await runToEnd(server as unknown as RunningServer, Promise.resolve(), logger, terminal), 0);
  assert.equal(server.stops, 1);
  assert.match(said[0]!, /stopping; press Ctrl-C again/);
});

test('after a signal during the start the server is stopped once it is up, or the process is ended', async () => {
  const server = new FakeServer();
  const { terminal, said } = heard();
  assert.equal(await stopEarly(Promise.resolve(server as unknown as RunningServer), terminal), 0);
  assert.equal(server.stops, 1);
  assert.equal(await stopEarly(Promise.reject(new Error('no disk')), terminal), 0);
  assert.equal(await stopEarly(new Promise(() => undefined), terminal, 1), 1);
  assert.match(said[0]!, /stopping before it is up; press Ctrl-C again/);
  assert.match(said.at(-1)!, /it did not stop within 0\.001 s and is ended/);
});

test('a stop says what is left and what becomes of it', () => {
  const nothing = { waiting: 0, goingOn: {}, cutOff: 0, unknown: 0 };
  assert.equal(stoppedText(nothing, false), 'stopped; no job is left');
  const all = { waiting: 1, goingOn: { command: 3, worker: 1, gateway: 2 }, cutOff: 1, unknown: 2 };
  assert.equal(
    stoppedText(all, true),
    'stopped; 1 job waits, 3 commands go on running, 1 job goes on at its worker, ' +
      '2 jobs go on at their backends (gateway), 1 job was cut off, 2 jobs have an unknown outcome\n' +
      'the next leader runs what waits; the next leader takes the results of what runs; ' +
      'what was cut off is tried again or held, as on_unknown of the job says; orchd resolve decides unknown outcomes',
  );
});

const BANNER = {
  version: '1.2.3',
  url: 'http://127.0.0.1:8080',
  data: '/data',
  needsToken: false,
  hasBackends: true,
  pools: 0,
  missing: [],
  models: [],
  exampleModel: 'demo',
  exampleType: undefined,
  command: 'orchd',
  isDefaultUrl: true,
};

test('the banner names what to try, and only what is needed for it', () => {
  assert.deepEqual(bannerText(BANNER).split('\n'), [
    'orchd 1.2.3 listens on http://127.0.0.1:8080',
    'data: /data',
    'try:  orchd submit --follow "Hello"',
    `or:   curl http://127.0.0.1:8080/v2/tasks -H 'content-type: application/json' -d '{"prompt": "Hello"}'`,
    `or:   curl http://127.0.0.1:8080/v1/chat/completions -d '{"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}'`,
    'see:  orchd status --watch',
    'press Ctrl-C to stop',
  ]);
  const other = bannerText({
    ...BANNER,
    url: 'http://h:1',
    needsToken: true,
    isDefaultUrl: false,
  });
  assert.match(other, /submit --follow --url http:\/\/h:1 "Hello"/);
  assert.match(other, /Bearer \$ORCHD_TOKEN/);
});

test('the banner tries nothing that would be refused', () => {
  const none = bannerText({ ...BANNER, hasBackends: false, exampleModel: undefined });
  assert.match(none, /^nothing here runs jobs: .*\nadd one: orchd up --model FILE\.gguf/m);
  assert.doesNotMatch(none, /^(try|or): /m);
  const pools = bannerText({ ...BANNER, hasBackends: false, exampleModel: undefined, pools: 2 });
  assert.match(pools, /^jobs run in the 2 pools of the configuration: `orchd models` lists/m);
  assert.doesNotMatch(pools, /^(try|or): |nothing here runs jobs/m);
  const command = bannerText({ ...BANNER, exampleModel: undefined, exampleType: 'count' });
  assert.match(command, /^try: {2}orchd submit --follow --type count --payload '\{\}'$/m);
  assert.doesNotMatch(command, /^or: /m);
});

test('the banner of a server on all addresses names one that can be called', () => {
  const text = bannerText({ ...BANNER, url: 'http://0.0.0.0:8080' });
  assert.match(text, /listens on http:\/\/127\.0\.0\.1:8080 and all other addresses of this machine$/m);
  assert.doesNotMatch(text, /0\.0\.0\.0:/);
  assert.match(bannerText({ ...BANNER, url: 'http://[::]:1' }), /curl http:\/\/\[::1\]:1\/v2/);
});

test('the banner names the models, and its examples use the first of them', () => {
  const text = bannerText({ ...BANNER, hasBackends: false, models: ['tiny', 'other'] });
  assert.match(text, /^models: tiny, other$/m);
  assert.match(text, /^try: {2}orchd submit --follow --model tiny "Hello"$/m);
  assert.match(text, /-d '\{"model": "tiny", "prompt": "Hello"\}'$/m);
  assert.match(text, /\/v1\/chat\/completions -d '\{"model": "tiny", "messages": \[/);
  assert.doesNotMatch(text, /no backend/);
  const long = bannerText({ ...BANNER, models: ['a'.repeat(100)] });
  assert.doesNotMatch(long, /\/v1/, 'nobody copies a line of that length');
});

test('in a checkout the command goes through npm', () => {
  assert.equal(ownCommand('src/cli/main.ts'), 'npm run orchd --');
  assert.equal(ownCommand('dist/cli/main.js'), 'orchd');
  assert.equal(ownCommand(undefined), 'orchd');
});
