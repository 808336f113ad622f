/**
 * A brain over a spool, all in processes of their own: three jobs, of which one is followed, one is short and one is
 * cancelled. At a chosen pass of a crash point the brain, the daemons of the spool, or both are killed; what was killed is
 * started again, and everything goes on to its end. The commands of the jobs keep a ledger of what they have done.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { OrchdClient, type TaskEvent } from '../../../src/client/client.ts';
import type { Crashpoint } from '../../../src/kit/crashpoint.ts';
import { realEnv } from '../../../src/kit/env/real.ts';
import { freePort } from '../../../src/kit/free-port.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { poll } from '../../../src/kit/poll.ts';
import { realHost } from '../../../src/kit/process/host.ts';
import { checkSpool } from '../../../src/spool/invariants.ts';
import { makeSpool, type Spool, spoolAt } from '../../../src/spool/spool.ts';
import { kill, processesBelow } from '../../fakes/command-kit.ts';
import { linesOf, type Running, start } from '../../flow/cli-process.ts';

/** `all`: also the commands that run. */
export const VICTIMS = ['brain', 'agents', 'both', 'all'] as const;
export type Victim = (typeof VICTIMS)[number];

export interface Kill {
  readonly point: Crashpoint;
  /** The pass of this crash point at which it happens, from 1. */
  readonly nth: number;
  readonly victim: Victim;
}

/** What a followed job says, in lines; it waits half way until it may go on. */
const LINES = 40;
const JOBS = ['followed', 'short', 'cancelled'] as const;
type Job = (typeof JOBS)[number];

/**
 * A run looks first whether an earlier one lives or has ended, and writes itself down. What it says goes to its events and
 * to its output.
 */
const script = (folder: string): string => `
cd '${folder}'
for pid in $(sed -n "s/^begin $JOB_ID //p" ledger); do
  if [ -e /proc/$pid ] && ! grep -q '^State:.Z' /proc/$pid/status; then echo "overlap $JOB_ID" >>ledger; fi
done
if grep -q "^end $JOB_ID " ledger; then echo "again $JOB_ID" >>ledger; fi
echo "begin $JOB_ID $$" >>ledger
n=0
while [ $n -lt ${LINES} ]; do
  n=$((n + 1))
  while [ "$JOB_ID" = cancelled ]; do sleep 0.05; done
  while [ "$JOB_ID" = followed ] && [ $n -gt ${LINES / 2} ] && [ ! -e may-end ]; do sleep 0.05; done
  printf '{"t":"%s %s\\\\n"}\\n' $$ $n >>"$JOB_EVENTS"
  echo "$$ $n"
done
echo "end $JOB_ID $$" >>ledger
`;

const CRASHPOINT = new URL('../../../src/kit/crashpoint.ts', import.meta.url).href;

/** Notes each crash point, and kills at the chosen one: first the others, then itself. */
const armed = (site: string, choice: Kill | undefined): string => `
import { appendFileSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { armCrashpoints } from '${CRASHPOINT}';
const choice = ${JSON.stringify(choice ?? null)};
const end = (pid) => { try { process.kill(pid, 'SIGKILL'); } catch {} };
const worksBelow = (pid) => { try { return readlinkSync('/proc/' + pid + '/cwd').startsWith('${site}/'); } catch { return false; } };
let passes = 0;
armCrashpoints((name) => {
  appendFileSync('${site}/passed', name + '\\n');
  if (name !== choice?.point || ++passes !== choice.nth) return;
  appendFileSync('${site}/killed', 'at ' + name + '\\n');
  if (choice.victim !== 'brain') end(Number(readFileSync('${site}/daemons', 'utf8')));
  if (choice.victim === 'all') for (const pid of readdirSync('/proc').filter((each) => /^\\d+$/.test(each)).filter(worksBelow)) end(Number(pid));
  if (choice.victim !== 'agents') end(process.pid);
});
`;

export class BrainSite {
  readonly #folder: string;
  readonly #spool: Spool;
  readonly #heard: TaskEvent[] = [];
  #port = 0;
  #brain: Running | undefined;
  #daemons: Running | undefined;
  #isOver = false;

  constructor(folder: string) {
    this.#folder = folder;
    fs.mkdirSync(folder);
    fs.writeFileSync(join(folder, 'ledger'), '');
    const env = realEnv();
    const logger = createLogger({ write: () => undefined, now: () => env.clock.now() });
    const host = realHost(() => env.clock.now());
    this.#spool = spoolAt({ env, host, logger, folder: join(folder, 'spool') });
  }

  /** Plays everything to its end, and says what is wrong then. */
  async play(choice?: Kill): Promise<string[]> {
    this.#port = await freePort();
    await makeSpool(this.#spool);
    fs.writeFileSync(join(this.#folder, 'config.yaml'), JSON.stringify(this.#config()));
    fs.writeFileSync(join(this.#folder, 'armed.ts'), armed(this.#folder, choice));
    try {
      const upkeep = [this.#keepDaemons(), this.#keepBrain()];
      await this.#work();
      this.#isOver = true;
      await this.#stop();
      await Promise.all(upkeep);
      return await this.#problems(choice);
    } finally {
      this.#isOver = true;
      for (const each of [this.#brain, this.#daemons]) each?.child.kill('SIGKILL');
      for (const pid of processesBelow(this.#folder)) kill(pid, 'SIGKILL');
    }
  }

  /** The crash points that the first brain has passed, in order. */
  get passed(): Crashpoint[] {
    return linesOf(fs.readFileSync(join(this.#folder, 'passed'), 'utf8')) as Crashpoint[];
  }

  get wasKilled(): boolean {
    return fs.existsSync(join(this.#folder, 'killed'));
  }

  #config(): object {
    const spool = { name: 'spool', folder: this.#spool.paths.root, types: ['talk'] };
    return { backends: { demo: false, spools: [spool] } };
  }

  /** Daemons that are killed are started again. */
  async #keepDaemons(): Promise<void> {
    const options = ['--slots', '3', '--interval', '100ms', '--grace', '0s'];
    while (!this.#isOver) {
      const command = ['--', 'sh', '-c', script(this.#folder)];
      this.#daemons = start(['spool', 'up', this.#spool.paths.root, ...options, ...command]);
      fs.writeFileSync(join(this.#folder, 'daemons'), String(this.#daemons.child.pid));
      await this.#daemons.ended;
    }
  }

  /** Only the first brain has armed crash points. */
  async #keepBrain(): Promise<void> {
    const file = join(this.#folder, 'config.yaml');
    const data = join(this.#folder, 'data');
    const words = ['up', '--port', String(this.#port), '--data', data, '--config', file];
    let env: Record<string, string> = { NODE_OPTIONS: `--import ${join(this.#folder, 'armed.ts')}` };
    while (!this.#isOver) {
      this.#brain = start(words, { env });
      env = {};
      await this.#brain.ended;
    }
  }

  get #client(): OrchdClient {
    return new OrchdClient({ url: `http://127.0.0.1:${this.#port}` });
  }

  async #work(): Promise<void> {
    for (const job_id of JOBS) await this.#asked(() => this.#client.submit({ job_id, type: 'talk' }));
    const following = this.#follow();
    // A check that fails earlier no longer awaits it.
    following.catch(() => undefined);
    await until(() => this.#ledger('begin', 'cancelled').length > 0);
    await this.#asked(() => this.#client.cancel('cancelled'));
    // A brain that has died before is back by then, and follows a command that still runs.
    await until(() => this.#words.length >= LINES / 2);
    this.#mayEnd();
    await following;
    for (const job of JOBS) await until(async () => isEnd(await this.#asked(() => this.#client.get(job))));
    await until(() => ['incoming', 'in-progress'].every((place) => this.#jobsIn(place).length === 0));
    // The daemons that were started last have tidied up after the others.
    await until(async () => (await checkSpool(this.#spool)).length === 0);
  }

  /** Repeats a request until a brain has answered it. */
  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    let answer: { readonly value: T } | undefined;
    await until(async () => {
      answer = await ask().then(
        (value) => ({ value }),
        () => undefined,
      );
      return answer !== undefined;
    });
    return (answer as unknown as { value: T }).value;
  }

  /** Goes on over all deaths of the brain. */
  async #follow(): Promise<void> {
    const { patienceMs } = SLOW_MACHINE;
    for await (const event of this.#client.events('followed', { patienceMs })) this.#heard.push(event);
  }

  #mayEnd(): void {
    fs.writeFileSync(join(this.#folder, 'may-end'), '');
  }

  async #stop(): Promise<void> {
    for (const each of [this.#brain, this.#daemons]) {
      each?.child.kill('SIGTERM');
      await each?.ended;
    }
  }

  #jobsIn(place: string): string[] {
    const folder = join(this.#spool.paths.root, place);
    const names = fs.readdirSync(folder);
    return place === 'in-progress' ? names.flatMap((agent) => fs.readdirSync(join(folder, agent))) : names;
  }

  /** The processes in the lines of the ledger with this word and job. */
  #ledger(word: string, job: Job): string[] {
    const lines = linesOf(fs.readFileSync(join(this.#folder, 'ledger'), 'utf8')).map((line) =>
      line.split(' '),
    );
    return lines.filter(([what, whose]) => what === word && whose === job).map(([, , pid = '']) => pid);
  }

  /** The lines that still count: another attempt takes back what the one before it said. */
  get #words(): string[] {
    const from = this.#heard.findLastIndex(({ event }) => event === 'reset') + 1;
    const tokens = this.#heard.slice(from).filter(({ event }) => event === 'token');
    return linesOf(tokens.map(({ data }) => (data as { t: string }).t).join(''));
  }

  async #problems(choice: Kill | undefined): Promise<string[]> {
    const problems = JOBS.flatMap((job) => this.#problemsOf(job, choice?.victim));
    const [last] = this.#heard.slice(-1);
    const state = (last?.data as { state?: string } | undefined)?.state;
    if (last?.event !== 'end' || state !== 'succeeded')
      problems.push(`the stream ends with ${JSON.stringify(last)}`);
    const pid = this.#ledger('end', 'followed').at(-1);
    const said = Array.from({ length: LINES }, (_, at) => `${pid} ${at + 1}`);
    if (this.#words.join() !== said.join()) problems.push(`the follower heard ${this.#words.join()}`);
    const ids = this.#heard.filter(({ event }) => event === 'token').map(({ id }) => id);
    if (new Set(ids).size !== ids.length) problems.push('an event was sent twice');
    const findings = await checkSpool(this.#spool);
    return [...problems, ...findings.map(({ code, path, why }) => `${code} ${path}: ${why}`)];
  }

  #problemsOf(job: Job, victim: Victim | undefined): string[] {
    const [begun, ended] = [this.#ledger('begin', job).length, this.#ledger('end', job).length];
    const problems = this.#ledger('overlap', job).map(
      () => `${job} was begun while an earlier run of it lived`,
    );
    if (job === 'cancelled' ? ended > 0 : ended === 0) problems.push(`${job} has ended ${ended} times`);
    // What was killed with the shell that would have written down its end is unknown, and is tried again by default.
    if (victim === 'all') return problems;
    if (begun !== 1) problems.push(`${job} was begun ${begun} times`);
    if (this.#ledger('again', job).length > 0) problems.push(`${job} was begun after it had ended`);
    return problems;
  }
}

/** Far more time than anything takes on any machine. */
const SLOW_MACHINE = { patienceMs: 300_000 };

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const times = { everyMs: 10, atMostMs: SLOW_MACHINE.patienceMs };
  const found = await poll(realEnv(), times, async () => ((await isSo()) ? true : undefined));
  assert.ok(found, 'it never came to be');
}

const isEnd = ({ state }: { readonly state: string }): boolean =>
  ['succeeded', 'cancelled', 'dead'].includes(state);
