/** Agents whose pid was given to another process, that are stopped, and that live in another pid namespace. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../../src/kit/env/real.ts';
import { poll } from '../../../src/kit/poll.ts';
import { Actor } from '../../../src/spool/actor.ts';
import { commitJob, saveResult } from '../../../src/spool/commit.ts';
import { checkSpool } from '../../../src/spool/invariants.ts';
import { loadJob } from '../../../src/spool/load.ts';
import { Heartbeats } from '../../../src/spool/owner.ts';
import { sweepSpool } from '../../../src/spool/repair.ts';
import { retryJob } from '../../../src/spool/retry.ts';
import { submitJob } from '../../../src/spool/submit.ts';
import { makeSpoolKit, type SpoolKit } from '../../fakes/spool-kit.ts';

const AGENT = join(import.meta.dirname, 'agent-main.ts');
const SWEEP = join(import.meta.dirname, 'sweep-main.ts');
const JOB = 'p5-20260101T000000000-job';
const TTL_MS = 400;
/** The file systems of other tests must not be kept by the mounts of this namespace when they are unmounted there. */
const LET_GO = `for each in $(sed -n 's|^/dev/loop[0-9]* \\([^ ]*\\) .*|\\1|p' /proc/mounts); do umount -l "$each"; done; exec "$@"`;
const NAMESPACE = [
  ...['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'],
  ...['sh', '-c', LET_GO, 'sh'],
];
const noNamespaces =
  spawnSync(NAMESPACE[0] as string, [...NAMESPACE.slice(1), 'true']).status === 0
    ? false
    : 'there can be no pid namespaces here';
const LIMITS = { timeout: 120_000 };
const IN_NAMESPACE = { ...LIMITS, skip: noNamespaces };

const env = realEnv();

class Site {
  readonly kit: SpoolKit;
  readonly watchdog: Actor;
  readonly ledger: string;
  readonly gate: string;
  /** By which the watchdog counts. */
  now = 0;
  readonly #heartbeats = new Heartbeats(() => this.now);
  readonly #t: TestContext;

  constructor(t: TestContext, kit: SpoolKit, watchdog: Actor) {
    this.#t = t;
    this.kit = kit;
    this.watchdog = watchdog;
    this.ledger = join(kit.folder, '..', 'ledger');
    this.gate = join(kit.folder, '..', 'gate');
    fs.writeFileSync(this.ledger, '');
  }

  static async make(t: TestContext): Promise<Site> {
    const kit = await makeSpoolKit(t, { settings: { foreignLockTtlMs: TTL_MS } });
    const watchdog = await Actor.open(kit.spool, 'watchdog');
    await submitJob(watchdog, { name: JOB, prompt: 1 });
    return new Site(t, kit, watchdog);
  }

  get agentCommand(): string[] {
    return [process.execPath, AGENT, this.kit.folder, this.ledger, String(TTL_MS), this.gate];
  }

  /** Starts a process, and waits until its agent has begun the job. */
  async agent(within: readonly string[] = []): Promise<{ child: ChildProcess; said: () => string }> {
    const [program = '', ...rest] = [...within, ...this.agentCommand];
    const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#t.after(() => child.kill('SIGKILL'));
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    await until('the job is begun', () => fs.readFileSync(this.ledger, 'utf8').startsWith('begin'));
    return { child, said: () => text };
  }

  sweep(): Promise<unknown> {
    return sweepSpool(this.watchdog, this.#heartbeats);
  }

  /** Whether the job is still that of the agent which has begun it. */
  isKept(): boolean {
    return this.kit.names('in-progress').some((agent) => this.kit.names('in-progress', agent).includes(JOB));
  }

  heartbeatMs(): number {
    const owners = this.kit.names('tmp').filter((name) => name.startsWith('agent-'));
    return fs.statSync(this.kit.path('tmp', owners[0] as string, 'owner.json')).mtimeMs;
  }
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  const found = await poll(env, { everyMs: 5, atMostMs: 60_000 }, () => (isSo() ? true : undefined));
  assert.ok(found, `it never came to pass that ${what}`);
}

async function stop(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await until('it is stopped', () => /\) T /.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1')));
}

/** In a namespace of its own, where the next pid can be chosen. */
const RECYCLE = `
set -eu
node=$1 sweep=$2 spool=$3 ledger=$4; shift 4
"$@" >/dev/null & agent=$!
until grep -q begin "$ledger"; do sleep 0.02; done
echo "alive: $("$node" "$sweep" "$spool")"
kill -9 $agent; wait $agent || true
echo $((agent - 1)) >/proc/sys/kernel/ns_last_pid
sleep 1000 & other=$!
[ $other = $agent ] && echo recycled
echo "dead: $("$node" "$sweep" "$spool")"
kill $other
`;

test('[FARRO-4] a pid that belongs to another process by now keeps no job', IN_NAMESPACE, async (t) => {
  const site = await Site.make(t);
  const words = [process.execPath, SWEEP, site.kit.folder, site.ledger, ...site.agentCommand];
  const [program = '', ...rest] = [...NAMESPACE, 'sh', '-c', RECYCLE, 'sh', ...words];
  const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    said += piece;
  });
  await new Promise((resolve) => child.on('close', resolve));
  assert.equal(said, `alive: []\nrecycled\ndead: [{"name":"${JOB}","to":"stale"}]\n`);
  assert.deepEqual(site.kit.names('jobs/stale'), [JOB]);
});

test('[FARRO-6] an agent that is stopped is not robbed, however long', LIMITS, async (t) => {
  const site = await Site.make(t);
  const { child } = await site.agent();
  await stop(child.pid as number);
  for (let round = 0; round < 3; round++) {
    await site.sweep();
    site.now += 10 * TTL_MS;
  }
  assert.ok(site.isKept());
  child.kill('SIGCONT');
  fs.writeFileSync(site.gate, '');
  await until('the job has ended', () => site.kit.names('completed/succeeded').includes(JOB));
});

test(
  '[FARRO-6] an agent of another pid namespace is not robbed while it lives; one that is stopped past foreign_lock_ttl is, and commits nothing',
  IN_NAMESPACE,
  async (t) => {
    const site = await Site.make(t);
    const { child, said } = await site.agent(NAMESPACE);
    for (let round = 0; round < 4; round++) {
      await site.sweep();
      // Read after the sweep: a sign that came before it would count as the next one.
      const beat = site.heartbeatMs();
      await until('it has given a sign', () => site.heartbeatMs() !== beat);
      site.now += TTL_MS - 1;
    }
    assert.ok(site.isKept(), 'not robbed while it lives');

    const children = fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
    const inner = Number(children.split(' ')[0]);
    await stop(inner);
    await site.sweep();
    site.now += TTL_MS - 1;
    await site.sweep();
    assert.ok(site.isKept(), 'not robbed before its time is over');
    site.now += 2;
    await site.sweep();
    assert.deepEqual(site.kit.names('jobs/stale'), [JOB]);

    await retryJob(site.watchdog, 'stale', JOB);
    const second = await Actor.open(site.kit.spool, 'agent', 'second');
    const outcome = await loadJob(second, JOB);
    assert.ok(outcome.is === 'loaded');
    await saveResult(second, outcome.envelope, 'of the second');
    assert.equal(await commitJob(second, outcome.envelope, 'succeeded'), 'committed');
    await second.close();

    const ended = (): Record<string, string> => {
      const folder = site.kit.path('completed/succeeded', JOB);
      const files = fs.readdirSync(folder).sort();
      return Object.fromEntries(files.map((file) => [file, fs.readFileSync(join(folder, file), 'utf8')]));
    };
    const before = ended();
    assert.equal(before['result.json'], '"of the second"\n');
    fs.writeFileSync(site.gate, '');
    process.kill(inner, 'SIGCONT');
    await until('it knows that it has lost the job', () =>
      said().includes('a job was taken from this agent'),
    );
    assert.deepEqual(ended(), before);
    await site.watchdog.close();
    assert.deepEqual(await checkSpool(site.kit.spool), []);
  },
);
