/**
 * A keeper killed at each of its steps, alone and with the wrapper of its command: nothing runs twice, no end that was
 * reached is lost, the output is whole, and what is uncertain is unknown.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { CommandBackend } from '../../src/backends/local/command/command.ts';
import type { CommandSpec, KeeperOrder, OrderHeader } from '../../src/backends/local/command/keeper-wire.ts';
import { MARK_VARIABLE, markOf } from '../../src/backends/local/command/layout.ts';
import { type Crashpoint, KEEPER_CRASHPOINTS } from '../../src/kit/crashpoint.ts';
import { CommandKit, hear, offerOf, sh, until, WHO } from '../fakes/command-kit.ts';

const MAIN = join(import.meta.dirname, 'keeper-kills-main.ts');
const TOKEN = 'job:1';
const WHOLE = 'a\nb\nc\nrest';

interface Death {
  readonly at: Crashpoint;
  /** The wrapper dies with the keeper. */
  readonly takesWrapper?: boolean;
  /** The keeper dies after the wrapper has begun. */
  readonly waits?: boolean;
}

class Site {
  readonly kit: CommandKit;
  readonly backend: CommandBackend;
  readonly #go: string;
  readonly #script: string;

  constructor(t: TestContext) {
    this.kit = new CommandKit(t);
    this.#go = join(this.kit.root, 'go');
    this.#script = `echo ran >> ${this.kit.ledger}; echo a; echo b; until [ -e ${this.#go} ]; do sleep 0.02; done; printf 'c\\nrest'`;
    this.backend = this.kit.backend(sh(this.#script));
  }

  get paths() {
    return this.kit.paths(TOKEN);
  }

  go(): void {
    fs.writeFileSync(this.#go, '');
  }

  /** Runs a keeper until it dies of the order. */
  async keeperDies(order: KeeperOrder, { at, takesWrapper, waits }: Death): Promise<void> {
    const { status } = this.paths;
    const env = {
      PATH: process.env['PATH'],
      KEEPER_DIES_AT: at,
      KEEPER_TAKES: takesWrapper ? status : '',
      KEEPER_WAITS: waits ? status : '',
    };
    const child = spawn(process.execPath, [MAIN], {
      cwd: this.kit.folder,
      env,
      detached: true,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    const header: OrderHeader = {
      id: 1,
      bytes: 0,
      folder: this.kit.folder,
      registry: this.backend.info.registry,
      order,
    };
    child.stdin.on('error', () => undefined);
    child.stdin.write(`${JSON.stringify(header)}\n`);
    const [, signal] = await once(child, 'exit');
    assert.equal(signal, 'SIGKILL', `it passed ${at}`);
  }

  run(death: Death): Promise<void> {
    const { name } = this.paths;
    const spec: CommandSpec = {
      name,
      token: TOKEN,
      hash: undefined,
      jobId: 'job',
      model: undefined,
      argv: ['sh', '-c', this.#script],
      cwd: undefined,
      env: {
        PATH: process.env['PATH'] ?? '',
        [MARK_VARIABLE]: markOf(this.backend.info.registry, name).value,
      },
      split: 'line',
      timeoutMs: undefined,
      maxOutputBytes: 1000,
      offeredAt: Date.now(),
    };
    return this.keeperDies({ is: 'run', spec }, death);
  }

  /** What the brain finds: it offers once more, since it got no answer, and follows. */
  async end(): Promise<{ readonly is: 'whole' | 'unknown'; readonly runs: number }> {
    assert.deepEqual(await this.backend.offer(offerOf(TOKEN)), { is: 'accepted' });
    const { outcome, text } = await hear(this.backend, TOKEN);
    const runs = this.kit.runs().length;
    assert.deepEqual(this.kit.commands(), [], 'no process is left');
    // Every later reader gets the same, and the token never runs again.
    assert.deepEqual((await hear(this.kit.backend(sh('false')), TOKEN)).outcome, outcome);
    assert.deepEqual(await this.backend.offer(offerOf(TOKEN)), { is: 'accepted' });
    assert.equal(this.kit.runs().length, runs);
    if (outcome === 'forgotten') return { is: 'unknown', runs };
    const resultText = JSON.stringify({ text: WHOLE, exit_code: 0 });
    assert.deepEqual([outcome, text], [{ ok: true, resultText }, WHOLE]);
    return { is: 'whole', runs };
  }
}

const STARTS = KEEPER_CRASHPOINTS.filter((name) => !name.endsWith('-claim'));
const CLAIMS = KEEPER_CRASHPOINTS.filter((name) => name.endsWith('-claim'));

for (const at of STARTS) {
  test(`killed at ${at}`, async (t) => {
    const site = new Site(t);
    await site.backend.start();
    site.go();
    await site.run({ at });
    const { is, runs } = await site.end();
    if (at === 'keeper:before-place') assert.deepEqual([is, runs], ['whole', 1], 'it is offered once more');
    else if (at === 'keeper:after-place' || at === 'keeper:before-start')
      assert.deepEqual([is, runs], ['unknown', 0]);
    // Its wrapper may not have begun when the next keeper forbids it to.
    else if (at === 'keeper:after-start') assert.equal(runs, is === 'whole' ? 1 : 0);
    else assert.deepEqual([is, runs], ['whole', 1]);
  });
}

test('killed while the command runs: the next keeper reports its end', async (t) => {
  const site = new Site(t);
  await site.backend.start();
  await site.run({ at: 'keeper:after-start', waits: true });
  await until(() => site.kit.runs().length === 1);
  site.go();
  assert.deepEqual(await site.end(), { is: 'whole', runs: 1 });
});

test('killed together with the wrapper while the command runs: its processes are ended, its outcome is unknown', async (t) => {
  const site = new Site(t);
  await site.backend.start();
  await site.run({ at: 'keeper:after-start', takesWrapper: true });
  const { is, runs } = await site.end();
  assert.equal(is, 'unknown');
  assert.ok(runs <= 1);
});

for (const at of [...CLAIMS, 'keeper:after-end', 'keeper:before-exit', 'keeper:after-exit'] as const) {
  for (const isOver of [true, false]) {
    const when = isOver ? 'a command that has ended' : 'a command that runs';
    test(`a second keeper, killed at ${at} over ${when}: the third one reports the end`, async (t) => {
      const site = new Site(t);
      await site.backend.start();
      await site.run({ at: 'keeper:after-start', waits: true });
      await until(() => site.kit.runs().length === 1);
      // A keeper that watches comes to the end of the command only when it may end.
      if (isOver || !at.endsWith('-claim')) site.go();
      if (isOver) await until(() => site.kit.commands().length === 0);
      await site.keeperDies({ is: 'adopt', name: site.paths.name }, { at });
      site.go();
      assert.deepEqual(await site.end(), { is: 'whole', runs: 1 });
    });
  }
}

test('a brain that is killed with all of its keepers: the next one finds the end', async (t) => {
  const site = new Site(t);
  await site.backend.start();
  await site.run({ at: 'keeper:after-start', waits: true });
  await site.backend.stop();
  await until(() => site.kit.runs().length === 1);
  site.go();
  await until(() => site.kit.processes().length === 0);
  const next = site.kit.backend(sh('false'));
  const { known } = await next.inspect([TOKEN], WHO);
  assert.equal(known.get(TOKEN)?.is, 'ended');
  assert.equal((await hear(next, TOKEN)).text, WHOLE);
});
