/**
 * Eight agents of four kinds, two watchdogs and two managers on one spool, killed at random instants. A few jobs for some
 * seconds by default; with CRASH_ALL=1 5,000 jobs for two minutes. MIXED_SEED sets who is killed and when.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { realEnv } from '../../../src/kit/env/real.ts';
import { poll } from '../../../src/kit/poll.ts';
import { Actor } from '../../../src/spool/actor.ts';
import { checkSpool } from '../../../src/spool/invariants.ts';
import { Heartbeats } from '../../../src/spool/owner.ts';
import { sweepSpool } from '../../../src/spool/repair.ts';
import { submitJob } from '../../../src/spool/submit.ts';
import { makeSpoolKit, type SpoolKit } from '../../fakes/spool-kit.ts';
import { MAIN } from '../../flow/cli-process.ts';
import { seededRandom } from '../steady-env.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
const [JOBS, KILLING_MS] = takesAll ? [5000, 120_000] : [120, 4000];
const SEED = Number(process.env['MIXED_SEED'] ?? 1);
/** The longest pause between two kills. */
const KILL_PAUSE_MS = 400;
/** Agents of the examples end when nothing waits, and are started again after this time. */
const RESTART_MS = 200;
const TTL_MS = 3000;
const EXAMPLES = join(import.meta.dirname, '../../../examples');
const AGENT = join(import.meta.dirname, 'agent-main.ts');

const env = realEnv();

/** Processes that are started again whenever they end. */
class Crowd {
  kills = 0;
  starts = 0;
  readonly #living = new Set<ChildProcess>();
  #isOpen = true;

  keep(command: readonly string[]): void {
    if (!this.#isOpen) return;
    const [program = '', ...rest] = command;
    const child = spawn(program, rest, { stdio: 'ignore' });
    this.starts++;
    this.#living.add(child);
    child.on('close', () => {
      this.#living.delete(child);
      setTimeout(() => this.keep(command), RESTART_MS);
    });
  }

  killOne(choice: number): void {
    const living = [...this.#living];
    const child = living[Math.floor(choice * living.length)];
    if (child?.kill('SIGKILL')) this.kills++;
  }

  /** Asks everybody to end, and waits for it. */
  async close(signal: NodeJS.Signals): Promise<void> {
    this.#isOpen = false;
    for (const child of this.#living) child.kill(signal);
    while (this.#living.size > 0) await sleep(20);
  }
}

/** A command for jobs that notes, as the handler of agent-main.ts does, what it begins. */
const script = (spool: string, ledger: string): string[] => [
  'sh',
  '-c',
  `read -r prompt; name=\${prompt#*:\\"}; name=\${name%%\\"*}; read -r id </proc/sys/kernel/random/uuid
for result in ${spool}/in-progress/*/"$name"/result.json; do [ ! -e "$result" ] || echo "late $name" >>${ledger}; done
echo "begin $name $id" >>${ledger}; echo "{\\"execution\\":\\"$id\\"}"`,
];

function startAll(crowd: Crowd, { folder }: SpoolKit, ledger: string): void {
  const command = script(folder, ledger);
  const ttl = ['--foreign-lock-ttl', `${TTL_MS}ms`];
  const cli = (...words: string[]): string[] => [process.execPath, MAIN, 'spool', ...words];
  for (let n = 0; n < 2; n++) {
    crowd.keep(cli('watchdog', folder, '--interval', '200ms', ...ttl));
    crowd.keep(cli('manager', folder, '--interval', '100ms', '--retry-delay', '1ms'));
    crowd.keep(cli('agent', folder, ...ttl, '--', ...command));
    crowd.keep([process.execPath, AGENT, folder, ledger, String(TTL_MS)]);
    crowd.keep(['sh', join(EXAMPLES, 'spool-agent.sh'), folder, ...command]);
    crowd.keep(['python3', join(EXAMPLES, 'spool_agent.py'), folder, ...command]);
  }
}

/** Sweeps until whoever left something must have been found dead. */
async function lastSweep({ spool }: SpoolKit): Promise<void> {
  let now = 0;
  const heartbeats = new Heartbeats(() => now);
  const watchdog = await Actor.open(spool, 'watchdog');
  for (let round = 0; round < 4; round++) {
    await sweepSpool(watchdog, heartbeats);
    now += 2 * spool.settings.foreignLockTtlMs;
  }
  await watchdog.close();
}

async function submitAll({ spool }: SpoolKit, names: readonly string[]): Promise<void> {
  const person = await Actor.open(spool, 'person');
  for (const name of names)
    await submitJob(person, { name, prompt: { name }, lifecycle: { max_retries: 1000 } });
  await person.close();
}

/** By the ledger the last execution that was begun is the one with the result, and none was begun with a result there. */
function ledgerProblems({ path }: SpoolKit, ledger: string, names: readonly string[]): string[] {
  const lines = fs.readFileSync(ledger, 'utf8').trim().split('\n');
  const last = new Map<string, string>();
  const problems: string[] = [];
  for (const line of lines) {
    const [word = '', name = '', execution = ''] = line.split(' ');
    if (word === 'late') problems.push(`${name} was begun after it had a result`);
    else last.set(name, execution);
  }
  for (const name of names) {
    const result = fs.readFileSync(path('completed/succeeded', name, 'result.json'), 'utf8');
    if (!result.includes(last.get(name) ?? 'no execution'))
      problems.push(`${name} has the result ${result.trim()}, and was begun last as ${last.get(name)}`);
  }
  return problems;
}

async function killAtRandom(crowd: Crowd): Promise<void> {
  const random = seededRandom(SEED);
  for (const end = performance.now() + KILLING_MS; performance.now() < end; ) {
    await sleep(random.next() * KILL_PAUSE_MS);
    crowd.killOne(random.next());
  }
}

async function untilAllHaveEnded(t: TestContext, kit: SpoolKit): Promise<void> {
  const isEnded = (): boolean => kit.names('completed/succeeded').length === JOBS;
  const found = await poll(env, { everyMs: 100, atMostMs: 900_000 }, () => (isEnded() ? true : undefined));
  if (!found) t.diagnostic(fs.readdirSync(kit.folder, { recursive: true }).slice(0, 200).join('\n'));
  assert.ok(found, `only ${kit.names('completed/succeeded').length} of ${JOBS} jobs have ended`);
}

test('[FARRO-10] agents of four kinds, watchdogs and managers are killed at random: every job ends once, and nothing is left', {
  timeout: 1_200_000,
}, async (t) => {
  const kit = await makeSpoolKit(t);
  const ledger = join(kit.folder, '..', 'ledger');
  fs.writeFileSync(ledger, '');
  const names = Array.from({ length: JOBS }, (_, n) => `p5-20260101T000000000-${String(n).padStart(5, '0')}`);
  const crowd = new Crowd();
  t.after(() => crowd.close('SIGKILL'));
  await submitAll(kit, names);
  startAll(crowd, kit, ledger);
  await killAtRandom(crowd);
  await untilAllHaveEnded(t, kit);
  await crowd.close('SIGTERM');
  await lastSweep(kit);
  t.diagnostic(`${JOBS} jobs, ${crowd.kills} kills, ${crowd.starts} starts, seed ${SEED}`);
  assert.deepEqual(kit.names('completed/succeeded'), names);
  for (const place of [
    'incoming',
    'in-progress',
    'jobs/stale',
    'completed/failed',
    'completed/killed',
    'tmp',
  ])
    assert.deepEqual(kit.names(place), [], place);
  assert.deepEqual(await checkSpool(kit.spool), []);
  assert.deepEqual(ledgerProblems(kit, ledger, names), []);
});
