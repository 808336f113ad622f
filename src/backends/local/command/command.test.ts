import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  CommandKit,
  type Heard,
  hear,
  js,
  offerOf,
  run,
  sh,
  until,
  WHO,
} from '../../../../test/fakes/command-kit.ts';
import type { ExecutionEvent } from '../../../core/ports/backend.ts';

const errorOf = (outcome: Heard['outcome']) => {
  assert.ok(
    typeof outcome === 'object' && outcome.ok === false,
    `it did not fail: ${JSON.stringify(outcome)}`,
  );
  return outcome.error;
};

describe('a command', () => {
  test('gets the payload on standard input, and its output is the result', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('cat; echo; echo done'));
    await backend.start();
    const { reply, events, outcome } = await run(backend, 'job:1', { prompt: 'hällo' });
    assert.deepEqual(reply, { is: 'accepted' });
    assert.deepEqual(outcome, {
      ok: true,
      resultText: JSON.stringify({ text: '{"prompt":"hällo"}\ndone\n', exit_code: 0 }),
    });
    const [started, ...tokens] = events;
    assert.equal(started?.type, 'started');
    assert.partialDeepStrictEqual(started?.data, { job_id: 'job' });
    assert.deepEqual(tokens, [
      { n: 2, type: 'token', data: { t: '{"prompt":"hällo"}\n', i: 0 } },
      { n: 3, type: 'token', data: { t: 'done\n', i: 1 } },
    ]);
    const { known } = await backend.inspect(['job:1', 'other:1'], WHO);
    assert.deepEqual([...known], [['job:1', { is: 'ended', outcome }]]);
  });

  test('knows the trace of its caller', async (t) => {
    const kit = new CommandKit(t);
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const backend = kit.backend(sh('echo "$TRACEPARENT"'));
    await backend.offer(offerOf('job:1', { trace }));
    assert.match(
      (await hear(backend, 'job:1')).text,
      /^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01\n$/,
    );
    await backend.offer(offerOf('plain:1'));
    assert.equal((await hear(backend, 'plain:1')).text, '\n');
  });

  test('can open its standard input by name', async (t) => {
    const kit = new CommandKit(t);
    const { text } = await run(kit.backend(sh('cat /dev/stdin')), 'job:1', 7);
    assert.equal(text, '7');
  });

  test('that does not read its input and writes nothing succeeds with an empty text', async (t) => {
    const kit = new CommandKit(t);
    const { outcome, events } = await run(kit.backend(sh('true')), 'job:1', 'x'.repeat(300_000));
    assert.deepEqual(outcome, { ok: true, resultText: '{"text":"","exit_code":0}' });
    assert.equal(events.length, 1);
  });

  test('streams its output while it runs', async (t) => {
    const kit = new CommandKit(t);
    const go = join(kit.root, 'go');
    const backend = kit.backend(sh(`echo one; until [ -e ${go} ]; do sleep 0.02; done; echo two`));
    await backend.offer(offerOf('job:1'));
    const events: ExecutionEvent[] = [];
    const end = backend.follow('job:1', 0, (event) => events.push(event), WHO);
    await until(() => events.length === 2);
    assert.deepEqual([...(await backend.inspect(['job:1'], WHO)).known], [['job:1', { is: 'running' }]]);
    await kit.backend(sh(`touch ${go}`), { folder: join(kit.root, 'other') }).offer(offerOf('go:1'));
    assert.equal((await end).is, 'ended');
    assert.deepEqual(
      events.slice(1).map(({ data }) => (data as { t: string }).t),
      ['one\n', 'two\n'],
    );
  });

  test('with `split: space` streams its output word by word', async (t) => {
    const kit = new CommandKit(t);
    const { events } = await run(kit.backend(sh('printf "a bc  d\\ne"', { split: 'space' })), 'job:1');
    const pieces = events.slice(1).map(({ data }) => (data as { t: string }).t);
    assert.deepEqual(pieces, ['a ', 'bc ', ' ', 'd\n', 'e']);
  });

  test('a reader whose signal is aborted gets no more events', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo a; echo b; sleep 60'));
    await backend.offer(offerOf('job:1'));
    const abort = new AbortController();
    const received: number[] = [];
    const on = ({ n }: ExecutionEvent): void => {
      received.push(n);
      if (n === 2) abort.abort();
    };
    assert.deepEqual(await backend.follow('job:1', 0, on, WHO, abort.signal), { is: 'lost' });
    assert.deepEqual(received, [1, 2]);
  });

  test('stopping the backend ends its readers and not the command', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('sleep 60'));
    await backend.offer(offerOf('job:1'));
    const ends = Array.from({ length: 20 }, () => hear(backend, 'job:1'));
    await backend.stop();
    for (const { outcome } of await Promise.all(ends)) assert.equal(outcome, 'lost');
    const next = kit.backend(sh('sleep 60'));
    assert.deepEqual([...(await next.inspect(['job:1'], WHO)).known], [['job:1', { is: 'running' }]]);
  });
});

describe('how a command ends', () => {
  const CASES = [
    { code: 1, retriable: true },
    { code: 64, retriable: false },
    { code: 75, retriable: true },
    { code: 78, retriable: false },
    { code: 79, retriable: true },
  ];
  for (const { code, retriable } of CASES) {
    test(`exit code ${code} is ${retriable ? '' : 'not '}retriable`, async (t) => {
      const kit = new CommandKit(t);
      const error = errorOf((await run(kit.backend(sh(`echo why >&2; exit ${code}`)), 'job:1')).outcome);
      assert.deepEqual(error, { code: 'EXECUTION_FAILED', message: `exit code ${code}: why`, retriable });
    });
  }

  test('that somebody else ended by a signal has an unknown outcome', async (t) => {
    const kit = new CommandKit(t);
    for (const signal of ['KILL', 'TERM', 'HUP']) {
      const backend = kit.backend(sh(`kill -${signal} $$; sleep 600`));
      await run(backend, `${signal}:1`);
      const end = await backend.follow(`${signal}:1`, 0, () => undefined, WHO);
      assert.deepEqual(end, { is: 'forgotten', why: `ended by SIG${signal}, and not by orchd` });
    }
  });

  test('that reports the signal by its exit code, as shells do, has an unknown outcome too', async (t) => {
    const kit = new CommandKit(t);
    for (const [signal, number] of Object.entries({ HUP: 1, INT: 2, QUIT: 3, KILL: 9, TERM: 15 })) {
      const backend = kit.backend(sh(`sh -c 'kill -${signal} $$; sleep 600'; exit $?`));
      await run(backend, `${signal}:1`);
      const end = await backend.follow(`${signal}:1`, 0, () => undefined, WHO);
      const why = `ended by SIG${signal}, and not by orchd`;
      assert.deepEqual(end, { is: 'forgotten', why }, `exit code ${128 + number}`);
    }
  });

  test('that crashes by itself has failed, and may be tried again', async (t) => {
    const kit = new CommandKit(t);
    const error = errorOf((await run(kit.backend(sh('kill -ABRT $$')), 'job:1')).outcome);
    assert.deepEqual(error, {
      code: 'EXECUTION_FAILED',
      message: 'exit code 134 (SIGABRT): Aborted',
      retriable: true,
    });
  });

  test('the last bytes of a long stderr are kept', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(
      js(`process.stderr.write('🙂'.repeat(50000) + 'the last word'); process.exitCode = 1`),
    );
    const { message } = errorOf((await run(backend, 'job:1')).outcome);
    assert.ok(message.endsWith('🙂the last word') && message.startsWith('exit code 1: '));
    assert.ok(message.length <= 2000 && message.isWellFormed());
    const { stderr_tail } = kit.record<{ stderr_tail: string }>(kit.paths('job:1').exit);
    assert.ok(Buffer.byteLength(stderr_tail) <= 8 * 1024 + 9);
  });

  test('a program that does not exist fails the job for good, with an outcome', async (t) => {
    const kit = new CommandKit(t);
    const cases = [
      { type: { argv: ['no-such-program-of-orchd'] }, says: /"no-such-program-of-orchd" does not start/ },
      { type: { argv: ['.'] }, says: /does not start/ },
      {
        type: { argv: ['/no/such/bin'] },
        says: /^the program "bin" does not start \(ENOENT\): see argv in the configuration$/,
      },
      { type: sh('true', { cwd: join(kit.root, 'nowhere') }), says: /there is no folder/ },
    ];
    for (const [at, { type, says }] of cases.entries()) {
      const { reply, outcome } = await run(kit.backend(type), `job${at}:1`);
      assert.deepEqual(reply, { is: 'accepted' });
      const error = errorOf(outcome);
      assert.equal(error.code, 'WORKER_START_FAILED');
      assert.equal(error.retriable, false);
      assert.match(error.message, says);
    }
  });

  test('a command that writes too much is stopped, and what it wrote stays', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('yes 123456789'), { maxOutputBytes: 100_005 });
    const { outcome, text } = await run(backend, 'job:1');
    assert.deepEqual(errorOf(outcome), {
      code: 'EXECUTION_FAILED',
      message: 'it wrote more than 100005 bytes',
      retriable: false,
    });
    assert.equal(text, '123456789\n'.repeat(10_001).slice(0, 100_005));
  });

  test('a long output is complete in the events, and marked as truncated in the result', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(js(`process.stdout.write('ab🙂'.repeat(200000))`));
    const { outcome, text, events } = await run(backend, 'job:1');
    assert.ok(text === 'ab🙂'.repeat(200_000));
    assert.ok(typeof outcome === 'object' && outcome.ok === true);
    assert.ok('resultText' in outcome);
    const result = JSON.parse(outcome.resultText);
    assert.equal(result.truncated, true);
    assert.ok(text.startsWith(result.text) && Buffer.byteLength(result.text) > 2 ** 20 - 6);
    // The first backend has milestones and need not read from the start, the second has none; both read the same.
    for (const from of [1, 15, 16, 17, 18, 50, 70]) {
      for (const reader of [backend, kit.backend(sh('true'))])
        assert.deepEqual((await hear(reader, 'job:1', from)).events, events.slice(from));
    }
  });

  test('the keeper stops a command after its timeout where no brain does', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('sleep 600'));
    // The keeper stops it five seconds after the timeout of the job.
    await backend.offer(offerOf('job:1', { timeout_ms: -4900 }));
    assert.equal(errorOf((await hear(backend, 'job:1')).outcome).code, 'WORKER_TIMEOUT');
  });

  test('children that a command leaves behind end with it', async (t) => {
    const kit = new CommandKit(t);
    const { outcome, text } = await run(kit.backend(sh('sleep 600 & echo left')), 'job:1');
    assert.deepEqual(outcome, { ok: true, resultText: '{"text":"left\\n","exit_code":0}' });
    assert.equal(text, 'left\n');
    await until(() => kit.commands().length === 0);
  });
});

describe('offers', () => {
  test('of the same token run it once, concurrent or later, also from another brain', async (t) => {
    const kit = new CommandKit(t);
    const type = sh(`echo ran >> ${kit.ledger}; sleep 0.2`);
    const [one, two] = [kit.backend(type), kit.backend(type)];
    const replies = await Promise.all([
      one.offer(offerOf('job:1')),
      one.offer(offerOf('job:1')),
      two.offer(offerOf('job:1')),
    ]);
    await hear(one, 'job:1');
    replies.push(await one.offer(offerOf('job:1')), await two.offer(offerOf('job:1')));
    assert.deepEqual([...new Set(replies.map(({ is }) => is))], ['accepted']);
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test('past the slots are answered with busy, also after a restart, until one ends', async (t) => {
    const kit = new CommandKit(t);
    const type = sh('sleep 600');
    const one = kit.backend(type, { slots: 2 });
    const replies = await Promise.all(['a:1', 'b:1', 'c:1'].map((token) => one.offer(offerOf(token))));
    assert.deepEqual(replies.map(({ is }) => is).sort(), ['accepted', 'accepted', 'busy']);
    const running = (await one.inspect(['a:1', 'b:1', 'c:1'], WHO)).known;
    assert.equal(running.size, 2);
    const two = kit.backend(type, { slots: 2 });
    await two.start();
    assert.deepEqual(await two.offer(offerOf('d:1')), { is: 'busy' });
    const [token] = running.keys();
    await one.kill(token as string, WHO);
    await hear(one, token as string);
    assert.deepEqual(await two.offer(offerOf('d:1')), { is: 'accepted' });
    assert.deepEqual(await two.offer(offerOf('e:1')), { is: 'busy' });
  });

  test('of a type that is not configured are refused', async (t) => {
    const kit = new CommandKit(t);
    for (const type of ['other', 'constructor', '__proto__']) {
      const reply = await kit.backend(sh('true')).offer(offerOf('job:1', { type }));
      assert.equal(reply.is, 'refused');
    }
    assert.equal(existsSync(kit.paths('job:1').folder), false);
  });

  test('of an earlier brain are fenced, and so are its kills and acknowledgements', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('sleep 600'));
    await one.offer({ ...offerOf('job:1'), epoch: 3 });
    const two = kit.backend(sh('sleep 600'));
    assert.deepEqual(await two.offer({ ...offerOf('job:2'), epoch: 2 }), { is: 'fenced' });
    assert.deepEqual(await two.kill('job:1', { owner: 'brain', epoch: 2 }), { is: 'fenced' });
    assert.deepEqual(await two.kill('none:1', { owner: 'brain', epoch: 2 }), { is: 'fenced' });
    assert.equal(existsSync(kit.paths('none:1').folder), false);
    assert.equal((await two.offer({ ...offerOf('job:3'), owner: 'else', epoch: 1 })).is, 'accepted');
    assert.equal((await two.kill('job:1', { owner: 'brain', epoch: 3 })).is, 'stopping');
  });

  test('are carried out also when the keeper was killed while it waited', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo fine'));
    await backend.start();
    const [keeper] = (await until(() =>
      kit.processes().length === 1 ? kit.processes() : undefined,
    )) as number[];
    process.kill(keeper as number, 'SIGSTOP');
    const offered = backend.offer(offerOf('job:1'));
    process.kill(keeper as number, 'SIGKILL');
    assert.deepEqual(await offered, { is: 'accepted' });
    assert.equal((await hear(backend, 'job:1')).text, 'fine\n');
  });
});
