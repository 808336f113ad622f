import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { askOf, change, JobScript, NOW } from '../../../test/fakes/folder-maker.ts';
import type { LooseRecord } from '../../core/ports/store.ts';
import { errorInfo } from '../../model/errors.ts';
import { end, newAttempt } from '../../model/moves.ts';
import type { Bill } from '../../model/price.ts';
import { BRAIN_ID, type Change, tokenOf } from '../../model/records.ts';
import { Records } from '../records.ts';
import { stateHash } from './doctor/state-hash.ts';
import { RecoveredCharges } from './history/recovered-charges.ts';
import { paths } from './layout.ts';
import { encodeChange } from './log/codec.ts';
import { LastChanges } from './log/last-changes.ts';
import { type FolderRecovery, passOn } from './recovered-log.ts';

/** Reads a log of one change a frame; the lines are copied where frames hold more than `framesBytes`. */
function passOnLog(changes: readonly Change[], into: FolderRecovery, framesBytes?: number): void {
  const log = new LastChanges(framesBytes);
  changes.forEach((each, at) => {
    log.add(Buffer.from(encodeChange(each)), at + 1, 1);
  });
  passOn({ bundles: [], records: [] }, log, into);
}

function replayed(changes: readonly Change[]): Records {
  const records = new Records();
  changes.forEach((each, at) => {
    records.change(each, at + 1);
  });
  return records;
}

function recovered(changes: readonly Change[], framesBytes?: number): Records {
  const records = new Records();
  passOnLog(changes, records, framesBytes);
  records.seq = changes.length;
  return records;
}

/** From a checkpoint after the changes `before`, and a log of those `since`. */
function recoveredFrom(before: readonly Change[], since: readonly Change[]): Records {
  const base = replayed(before);
  const brain: LooseRecord[] = base.brain ? [{ kind: 'brain', id: BRAIN_ID, after: base.brain }] : [];
  const contents = { bundles: [...base.jobs.values()], records: [...base.others.values(), ...brain] };
  const log = new LastChanges();
  since.forEach((each, at) => {
    log.add(Buffer.from(encodeChange(each)), before.length + at + 1, 1);
  });
  const records = new Records();
  passOn(contents, log, records);
  records.seq = before.length + since.length;
  return records;
}

/** Ids of failures are free text. */
const ODD_IDS = ['plain', 'a "quote"', 'ends with \\', '\\"', 'Grüße\n', '","', '\u{1F600}'];

const failure = (id: string, until: number): Change =>
  change('failure', `default~${id}`, { v: 1, until, error: errorInfo('EXECUTION_FAILED') });

/** The changes of some jobs and failures that take their next steps in the order of `picks`. */
function changesOf(picks: readonly number[]): Change[] {
  const changes: Change[] = [
    change('brain', BRAIN_ID, { v: 1, owner: 'o', epoch: 1, attemptFloor: 0 }, 'open'),
  ];
  const jobs = new Map<string, JobScript>();
  for (const pick of picks) {
    const uid = ['job', 'job-2', 'tenant~job'][pick % 3] as string;
    const known = jobs.get(uid);
    const script = known ?? new JobScript(uid);
    jobs.set(uid, script);
    const n = changes.length + 1;
    if (pick % 7 === 0) changes.push(failure(ODD_IDS[(pick / 7) % ODD_IDS.length] as string, pick));
    else if (pick % 11 === 0)
      changes.push(change('failure', `default~${ODD_IDS[(pick / 11) % ODD_IDS.length]}`, null));
    else changes.push(...(known ? nextStep(script, n, pick) : script.ask(n)));
  }
  return changes;
}

function nextStep(script: JobScript, n: number, pick: number): Change[] {
  switch (script.job.state) {
    case 'queued':
      return script.claim(script.job.attempt === 0 ? n : undefined);
    case 'claimed':
      return script.start();
    case 'running':
      if (pick % 3 === 0) return script.waits();
      return pick % 2 === 0 ? script.succeed() : script.fail(pick % 5 === 0 ? 'die' : 'retry');
    case 'dead':
      return pick % 2 === 0 ? script.redrive() : script.revive(n);
    default:
      return script.ask(n);
  }
}

test('what is recovered from a log is what all of its changes, one after the other, lead to', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(10_000), { maxLength: 120, size: 'max' }), (picks) => {
      const changes = changesOf(picks);
      assert.equal(stateHash(recovered(changes)), stateHash(replayed(changes)));
      assert.deepEqual([...recovered(changes).others.keys()], [...replayed(changes).others.keys()]);
    }),
  );
});

test('what is recovered from a checkpoint and the log after it is what all changes lead to, wherever the checkpoint was made', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(10_000), { maxLength: 120, size: 'max' }), fc.nat(), (picks, pick) => {
      const changes = changesOf(picks);
      const at = pick % (changes.length + 1);
      const records = recoveredFrom(changes.slice(0, at), changes.slice(at));
      assert.equal(stateHash(records), stateHash(replayed(changes)));
      assert.deepEqual([...records.others.keys()], [...replayed(changes).others.keys()]);
    }),
  );
});

test('a log that is longer than what is kept of it in memory is recovered in the same way', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(10_000), { maxLength: 120, size: 'max' }), (picks) => {
      const changes = changesOf(picks);
      assert.equal(stateHash(recovered(changes, 500)), stateHash(recovered(changes)));
    }),
  );
});

const BILL = { price: 'p', reserved: 10, cost: 7, basis: 'told' } as unknown as Bill;
const USAGE = { input: 3, cacheRead: 0, cacheWrite: 0, output: 4, reasoning: 0 };

async function tokensCharged(changes: readonly Change[]): Promise<string[]> {
  const charges = new RecoveredCharges();
  passOnLog(changes, charges.watching(new Records()));
  const found = await charges.after(-1, -1, undefined as never, paths('/data'));
  return found.map(({ token }) => token);
}

const attemptOf = (uid: string, n: number, bill?: Bill) =>
  newAttempt({ job: uid, n, backend: 'b', registry: 'r', epoch: 1, at: NOW, bill });

test('the charges of attempts that ended by waiting, or belong to a former job of that id, are recovered', async () => {
  const ask = change('ask', 'job', askOf('job', 1));
  const ended = (n: number, bill: Bill | undefined, usage?: typeof USAGE, label?: string): Change =>
    change(
      'attempt',
      tokenOf('job', n),
      end(attemptOf('job', n, bill), NOW, 'waits', { bill, usage, label }),
      'waits',
    );
  const changes = [
    ask,
    ended(1, undefined, USAGE),
    ended(2, BILL),
    ended(3, undefined),
    ended(4, BILL, undefined, 'step'),
    ended(5, undefined, undefined, 'step'),
    change('ask', 'job', askOf('job', 7)),
    ended(6, undefined, USAGE, 'step'),
  ];
  assert.deepEqual((await tokensCharged(changes)).sort(), ['job:1', 'job:2', 'job:4', 'job:6']);
});
