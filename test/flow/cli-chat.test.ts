/** `orchd chat` in a real terminal, against a real server and a model behind an OpenAI-compatible API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { proxyTo } from '../fakes/proxy.ts';
import { type TmuxWindow, tmuxWindow } from '../fakes/tmux.ts';
import { type Reply, type Site, site } from './agent-site.ts';
import { jsonLines, MAIN, orchd, start } from './cli-process.ts';

const LIMIT = { timeout: 120_000 };

/** Says what it has heard last, and how many messages there were. */
const echo = (
  _turn: number,
  reply: Reply,
  { messages }: { messages: readonly { content: string }[] },
): void =>
  reply
    .say(`heard ${messages.at(-1)?.content} `)
    .say(`as number ${messages.length}.`)
    .end();

const chat = (
  t: Parameters<typeof tmuxWindow>[0],
  { brain }: Site,
  ...words: string[]
): Promise<TmuxWindow> => tmuxWindow(t, [process.execPath, MAIN, 'chat', ...words], { ORCHD_URL: brain.url });

const sessionIn = (screen: string): string => /session (\S+);/.exec(screen)?.[1] ?? '';

test('a conversation is answered line by line, with all that was said before', LIMIT, async (t) => {
  const made = await site(t, echo);
  const window = await chat(t, made, 'helper');
  await window.shows(/you:\s*$/m);
  window.line('apples');
  await window.shows(/heard apples as number 2\./);
  window.line('pears');
  const screen = await window.shows(/heard pears as number 4\./);
  window.key('C-d');
  await window.ended();
  const { code, out } = await orchd(['sessions', 'show', sessionIn(screen)], {
    env: { ORCHD_URL: made.brain.url },
  });
  assert.equal(code, 0);
  assert.match(out, /you: apples\nmodel: heard apples as number 2\.\nyou: pears\nmodel: heard pears/);
});

test(
  'killed in the middle of an answer: the next chat shows what was said and goes on with the answer',
  LIMIT,
  async (t) => {
    const held = Promise.withResolvers<Reply>();
    const made = await site(t, (turn, reply, heard) => {
      if (turn === 0) echo(turn, reply, heard);
      else {
        reply.say('it is ');
        held.resolve(reply);
      }
    });
    const first = await chat(t, made, 'helper');
    await first.shows(/you:\s*$/m);
    first.line('apples');
    await first.shows(/heard apples as number 2\./);
    first.line('pears');
    const session = sessionIn(await first.shows(/it is/));
    process.kill(first.pid, 'SIGKILL');
    await first.ended();
    const second = await chat(t, made, 'helper', '--session', session);
    await second.shows(/you: apples\n(.|\n)*heard apples as number 2\.\nyou: pears\nit is/);
    (await held.promise).say('late').end();
    await second.shows(/it is late/);
    const { out } = await orchd(['sessions', 'export', session], { env: { ORCHD_URL: made.brain.url } });
    const [exported] = jsonLines(out) as unknown as { messages: { content: string }[] }[];
    assert.deepEqual(
      exported?.messages.map(({ content }) => content),
      ['apples', 'heard apples as number 2.', 'pears', 'it is late'],
    );
  },
);

test(
  'a call that must be allowed is asked for in the terminal; what was typed before is no answer',
  LIMIT,
  async (t) => {
    const made = await site(t, (turn, reply) => {
      if (turn === 0) reply.call('current_time', {});
      else reply.say(turn === 1 ? 'Told.' : 'Well.').end();
    });
    const window = await chat(t, made, 'careful');
    await window.shows(/you:\s*$/m);
    window.line('What time is it?');
    await window.shows(/wants to call the tool current_time \{\}\nallow it\? \[y\/N\]/);
    window.line('y');
    await window.shows(/Told\./);
    assert.doesNotMatch(await window.shows(/you:\s*$/m), /denied/);
  },
);

test(
  'a call of which nobody can read what it would do cannot be allowed, only denied or read again',
  LIMIT,
  async (t) => {
    const made = await site(t, (turn, reply) => {
      if (turn === 0) reply.call('current_time', {});
      else reply.say(turn === 1 ? 'Told.' : 'Well.').end();
    });
    // Between the chat and its server: reads of payloads fail.
    const way = { isBroken: true };
    const url = await proxyTo(t, made.brain.url, ({ url: path = '' }) =>
      way.isBroken && path.includes('include=payload') ? 'it is out of order' : undefined,
    );
    const window = await tmuxWindow(t, [process.execPath, MAIN, 'chat', 'careful'], { ORCHD_URL: url });
    await window.shows(/you:\s*$/m);
    window.line('What time is it?');
    const question = /call the tool current_time, and it cannot be read with what: it is out of order/;
    await window.shows(question);
    const screen = await window.shows(/deny it, or read it again\? \[d\/R\]\s*$/m);
    assert.doesNotMatch(screen, /allow it\?/);
    // A yes is no answer to it: the call is read again, which fails again.
    window.line('y');
    await window.shows(/\[d\/R\] y\n(.|\n)*\[d\/R\]\s*$/m);
    const waiting = await (await fetch(`${made.brain.url}/v2/approvals`)).json();
    assert.equal((waiting as { approvals: unknown[] }).approvals.length, 1);
    way.isBroken = false;
    window.line('');
    await window.shows(/wants to call the tool current_time \{\}\nallow it\? \[y\/N\]/);
    window.line('y');
    await window.shows(/Told\./);

    way.isBroken = true;
    const second = await tmuxWindow(t, [process.execPath, MAIN, 'chat', 'careful'], { ORCHD_URL: url });
    await second.shows(/you:\s*$/m);
    second.line('What time is it?');
    await second.shows(/\[d\/R\]\s*$/m);
    second.line('d');
    await second.shows(/was denied(.|\n)*Told\./);
  },
);

test('what a call would do is shown to its end; Ctrl-C at the question ends the run', LIMIT, async (t) => {
  // Together with the name of the tool it is longer than a line of the window.
  const zone = 'x'.repeat(64);
  const made = await site(t, (turn, reply, heard) => {
    if (heard.messages.at(-1)?.content !== 'apples') reply.call('current_time', { time_zone: zone });
    else echo(turn, reply, heard);
  });
  const window = await chat(t, made, 'careful');
  await window.shows(/you:\s*$/m);
  window.line('What time is it there?');
  await window.shows(new RegExp(`\\{"time_zone":"${zone}"\\}\nallow it\\? \\[y/N\\]`));
  window.key('C-c');
  await window.shows(/cancelled/);
  window.line('apples');
  await window.shows(/heard apples as number 2\./);
});

test('Ctrl-C ends an answer and not the conversation', LIMIT, async (t) => {
  const made = await site(t, (turn, reply, heard) => {
    if (heard.messages.at(-1)?.content === 'slow') reply.say('one moment');
    else echo(turn, reply, heard);
  });
  const window = await chat(t, made, 'helper');
  await window.shows(/you:\s*$/m);
  window.line('slow');
  await window.shows(/one moment/);
  window.key('C-c');
  await window.shows(/cancel/);
  window.line('apples');
  // The turn that was cancelled is no part of the conversation.
  await window.shows(/heard apples as number 2\./);
});

test('lines of a pipe are answered too; wrong names and sessions are refused', LIMIT, async (t) => {
  const { brain } = await site(t, echo);
  const env = { ORCHD_URL: brain.url };
  const piped = await start(['chat', 'helper'], { env, input: 'apples\npears\n' }).ended;
  assert.equal(piped.code, 0, piped.err);
  assert.match(piped.out, /heard apples as number 2\.\nheard pears as number 4\.\n/);
  const unknown = await orchd(['chat', 'helpr'], { env });
  assert.deepEqual([unknown.code, unknown.out], [1, '']);
  assert.match(unknown.err, /there is no agent "helpr"/);
  const { out: list } = await orchd(['sessions', '--json'], { env });
  const session = (jsonLines(list) as unknown as { session_id: string }[])[0]?.session_id ?? '';
  const astray = await orchd(['chat', 'helpr', '--session', session], { env });
  assert.deepEqual([astray.code, astray.out], [1, '']);
  const lost = await orchd(['chat', 'helper', '--session', 'none'], { env });
  assert.equal(lost.code, 1);
  assert.match(lost.err, /there is no session "none".*\n.*`orchd sessions` lists the sessions/);
});
