/** A command whose output is followed over HTTP while the brain, or all of it, is killed. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { OrchdClient, type TaskEvent } from '../../src/client/client.ts';
import type { Crashpoint } from '../../src/kit/crashpoint.ts';
import { linesOf, until } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const CRASHPOINT = new URL('../../src/kit/crashpoint.ts', import.meta.url).href;
const WORDS = 300;
const SOME = 40;

/**
 * Says random words, and keeps what each of its runs has said; a run writes itself down first. Behind the first half it
 * says nothing until it may go on: a brain is back before the command ends, however slow the machine is.
 */
const SCRIPT = `
  const [ledger] = process.argv.slice(1);
  const fs = require('node:fs');
  fs.appendFileSync(ledger, process.pid + ' ' + process.ppid + '\\n');
  const said = fs.openSync(ledger + '-' + process.pid, 'a');
  let left = ${WORDS};
  const timer = setInterval(() => {
    if (left === ${WORDS / 2} && !fs.existsSync(ledger + '-go')) return;
    const word = require('node:crypto').randomBytes(9).toString('base64') + '\\n';
    fs.writeSync(said, word);
    process.stdout.write(word);
    if (--left === 0) clearInterval(timer);
  }, 5);
`;

class Site {
  readonly #t: TestContext;
  readonly #data: string;
  readonly #ledger: string;
  brain!: ServerProcess;
  /** Events that one follower has received, over all its connections. */
  readonly heard: TaskEvent[] = [];

  constructor(t: TestContext) {
    this.#t = t;
    const folder = testFolder(t);
    this.#data = join(folder, 'data');
    this.#ledger = join(folder, 'ledger');
  }

  async begin(env?: Readonly<Record<string, string>>): Promise<void> {
    const types = { talk: { argv: [process.execPath, '-e', SCRIPT, this.#ledger] } };
    const config = { backends: { demo: false, commands: [{ name: 'talker', types }] } };
    const port = this.brain?.port;
    this.brain = await serve(this.#t, {
      data: this.#data,
      config,
      ...(port && { port }),
      ...(env && { env }),
    });
  }

  /** Dies by its own hand at the first of these places. */
  dyingAt(place: Crashpoint): Readonly<Record<string, string>> {
    const file = `${this.#data}-dies.ts`;
    const die = `(name) => name === '${place}' && process.kill(process.pid, 'SIGKILL')`;
    writeFileSync(file, `import { armCrashpoints } from '${CRASHPOINT}';\narmCrashpoints(${die});\n`);
    return { NODE_OPTIONS: `--import ${file}` };
  }

  /** Resolves at the end of the job, however often the connection is lost meanwhile. */
  async follow(): Promise<void> {
    const client = new OrchdClient({ url: this.brain.url });
    for await (const event of client.events('a')) this.heard.push(event);
  }

  submit(): Promise<unknown> {
    return new OrchdClient({ url: this.brain.url }).submit({ job_id: 'a', type: 'talk' });
  }

  /** The words that still count: another attempt takes back what the one before it said. */
  words(): string {
    const from = this.heard.findLastIndex(({ event }) => event === 'reset') + 1;
    const tokens = this.heard.slice(from).filter(({ event }) => event === 'token');
    return tokens.map(({ data }) => (data as { t: string }).t).join('');
  }

  /** Every run may say all of its words. */
  mayEnd(): void {
    writeFileSync(`${this.#ledger}-go`, '');
  }

  heardSome(): Promise<void> {
    return until(() => linesOf(this.words()).length >= SOME);
  }

  /** The command and its wrapper, of every run. */
  runs(): number[][] {
    if (!existsSync(this.#ledger)) return [];
    return linesOf(readFileSync(this.#ledger, 'utf8')).map((line) => line.split(' ').map(Number));
  }

  saidBy(run: number): string {
    return readFileSync(`${this.#ledger}-${this.runs()[run]?.[0]}`, 'utf8');
  }

  assertToldAll(run: number): void {
    assert.equal(linesOf(this.words()).length, WORDS);
    assert.equal(this.words(), this.saidBy(run), 'the bytes are those of the command');
    const ids = this.heard.filter(({ event }) => event === 'token').map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, 'nothing was told twice');
    assert.partialDeepStrictEqual(this.heard.at(-1), { event: 'end', data: { state: 'succeeded' } });
  }
}

const PATIENT = { timeout: 60_000 };

test(
  'a brain that is killed while a command talks: its follower goes on to the end, and it ran once',
  PATIENT,
  async (t) => {
    const site = new Site(t);
    await site.begin();
    await site.submit();
    const following = site.follow();
    await site.heardSome();
    await site.brain.kill();
    await site.begin();
    site.mayEnd();
    await following;
    site.assertToldAll(0);
    assert.equal(site.runs().length, 1);
  },
);

test(
  'a brain that is killed before the command has started: the next one starts it, once',
  PATIENT,
  async (t) => {
    const site = new Site(t);
    await site.begin(site.dyingAt('effect:before-offer'));
    // The submit may still be acknowledged before the brain dies, or not.
    await site.submit().catch(() => undefined);
    await site.brain.ended;
    assert.deepEqual(site.runs(), []);
    await site.begin();
    site.mayEnd();
    await site.follow();
    site.assertToldAll(0);
    assert.equal(site.runs().length, 1);
  },
);

test(
  'where the command is killed too, the follower is told to begin anew, and hears the second run whole',
  PATIENT,
  async (t) => {
    const site = new Site(t);
    await site.begin();
    await site.submit();
    const following = site.follow();
    await site.heardSome();
    await site.brain.kill();
    const [command, wrapper] = site.runs()[0] as [number, number];
    for (const pid of [wrapper, command]) process.kill(pid, 'SIGKILL');
    await site.begin();
    site.mayEnd();
    await following;
    site.assertToldAll(1);
    assert.equal(site.runs().length, 2, 'a second attempt, and each ran once');
    assert.equal(site.heard.filter(({ event }) => event === 'reset').length, 1);
  },
);
