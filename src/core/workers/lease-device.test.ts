import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { refusal } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import type { ConsumerDeclaration } from '../../model/consumer-record.ts';
import type { Claimed } from '../attempts/claims.ts';
import type { LeaseDevice } from '../settings.ts';
import { attemptLeaseId, type HeldLease } from '../state/leases.ts';

const MIB = 2 ** 20;
const TTL = 9000;
const mb = (gb: number): number => (gb * GB) / MIB;

class Kit extends PoolKit {
  static #made = 0;

  constructor(devices: readonly LeaseDevice[] = []) {
    super({}, { devices });
  }

  grant(gb: number, where: { pool?: string; gpuIndex?: number; tenant?: string } = {}): HeldLease {
    const { tenant = 'default', ...place } = where;
    const holder = { token: `t${++Kit.#made}`, tenant, agent: 'a', ttlMs: TTL };
    const request = { ...holder, minMemoryMb: Math.floor(mb(gb)), ...place };
    const { reply } = this.step({ type: 'lease', request });
    if (reply instanceof Error) throw reply;
    return reply as HeldLease;
  }

  release(lease: HeldLease): void {
    this.step({ type: 'release', lease: lease.id, tenant: 'default' });
  }

  /** Other programs use so much of each device; holders of leases among them. */
  othersUse(pool: string, gb: number): void {
    const known = this.pools.get(pool);
    if (known) known.usedBytes = gb * GB;
    this.report(pool);
  }

  /** Where a lease is: `pool#device`, or the CPU. */
  place({ record: { pool, gpuIndex } }: HeldLease): string {
    return gpuIndex === undefined ? 'cpu' : `${pool ?? ''}#${gpuIndex}`;
  }
}

describe('a lease on a device of a pool', () => {
  test('gets the device with the most free memory, a named one, or the CPU where none has enough', () => {
    const kit = new Kit();
    kit.pool('p', [12, 24]);
    kit.pool('q', [40]);
    assert.equal(kit.place(kit.grant(10)), 'q#0');
    assert.equal(kit.place(kit.grant(10, { pool: 'p' })), 'p#1');
    assert.equal(kit.place(kit.grant(10, { pool: 'p', gpuIndex: 0 })), 'p#0');
    assert.equal(kit.place(kit.grant(10, { pool: 'p', gpuIndex: 0 })), 'cpu');
    assert.equal(kit.place(kit.grant(31)), 'cpu');
    assert.throws(() => kit.grant(1, { pool: 'r' }), refusal('NOT_FOUND'));
    assert.throws(() => kit.grant(1, { pool: 'p', gpuIndex: 7 }), refusal('NOT_FOUND'));
    assert.throws(() => kit.grant(25, { pool: 'p' }), refusal('INSUFFICIENT_VRAM'));
  });

  test('is granted no device of the configuration, nor of a pool where the configuration names devices', () => {
    const kit = new Kit([{ index: 5, memoryMb: 30_000 }]);
    kit.pool('p', [24]);
    assert.equal(kit.place(kit.grant(10)), '#5');
    assert.equal(kit.place(kit.grant(10, { pool: 'p' })), 'p#0');
    assert.equal(kit.place(kit.grant(20)), '#5', 'the lease on p is not counted there');
    assert.equal(kit.place(kit.grant(5)), 'cpu');
  });

  test('waits for the first report of pools that have not reported', () => {
    const kit = new Kit();
    kit.step({ type: 'pool-awaited', name: 'p', awaited: true });
    assert.throws(() => kit.grant(1), refusal('POOL_UNAVAILABLE'));
    assert.throws(() => kit.grant(1, { pool: 'p' }), refusal('POOL_UNAVAILABLE'));
  });

  test('a tenant gets at most half of what the others leave free', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.grant(4);
    assert.equal(kit.place(kit.grant(9, { tenant: 'b' })), 'p#0');
    assert.equal(kit.place(kit.grant(2, { tenant: 'b' })), 'cpu');
  });
});

describe('the account of a device', () => {
  test('no worker is started on memory that a lease holds, and one is as soon as the lease ends', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    const lease = kit.grant(16);
    kit.ask('a', 'm');
    assert.deepEqual(kit.obey(), []);
    kit.release(lease);
    assert.deepEqual(kit.obey(), ['start m']);
  });

  test('no lease is granted on memory that a worker has, or is ordered for', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.ask('a', 'm');
    assert.equal(kit.place(kit.grant(16)), 'cpu', 'it is ordered');
    kit.obey();
    assert.equal(kit.place(kit.grant(16)), 'cpu', 'it runs');
    assert.equal(kit.place(kit.grant(14)), 'p#0');
  });

  test('what the holder of a lease uses is counted once', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    const lease = kit.grant(10);
    kit.othersUse('p', 10);
    assert.equal(kit.place(kit.grant(5)), 'p#0', 'ten are held and used, fourteen are left');
    kit.ask('a', 'm', { labels: { pool: 'p' } });
    assert.deepEqual(kit.obey(), [], 'nine are left');
    kit.release(lease);
    kit.othersUse('p', 0);
    assert.deepEqual(kit.obey(), ['start m']);
  });

  test('what others used before a grant is not taken for the use of its holder, also by the next brain', () => {
    const kit = new Kit();
    kit.pool('p', [24], { usedGb: 8 });
    kit.grant(10);
    assert.equal(kit.place(kit.grant(7)), 'cpu', 'eight are used, ten are held');
    const next = new Kit();
    kit.reborn(next);
    next.report('p');
    assert.equal(next.place(next.grant(7)), 'cpu');
    next.othersUse('p', 18);
    assert.equal(next.place(next.grant(5)), 'p#0', 'the holder uses what it holds');
    assert.equal(next.place(next.grant(2)), 'cpu');
  });

  test('what a holder used that has just ended is not taken for the use of others', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    const first = kit.grant(10);
    kit.othersUse('p', 10);
    kit.release(first);
    kit.grant(5);
    kit.othersUse('p', 0);
    kit.othersUse('p', 5);
    assert.equal(kit.place(kit.grant(18)), 'p#0', 'five are held and used, nineteen are left');
  });

  test('a lease stays on a device that vanishes, and counts when it returns', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.grant(20);
    const { devices } = kit.pools.get('p') ?? {};
    devices?.delete(0);
    kit.report('p');
    assert.equal(kit.place(kit.grant(1)), 'cpu');
    devices?.set(0, 24 * GB);
    kit.report('p');
    assert.equal(kit.place(kit.grant(5)), 'cpu');
    assert.equal(kit.place(kit.grant(3)), 'p#0');
  });
});

describe('a consumer that needs memory of a device', () => {
  const consumer = (fields: Partial<ConsumerDeclaration> = {}): ConsumerDeclaration => ({
    ...{ pool: 'c', name: 'one', token: 'secret', slots: 4, types: ['t'], models: undefined },
    ...{
      labels: {},
      paid: false,
      listens: undefined,
      ttlMs: TTL,
      gpuMemoryMb: Math.floor(mb(10)),
      gpuPool: 'p',
    },
    ...fields,
  });

  class ClaimKit extends Kit {
    #claim = 0;

    claim(claim = ++this.#claim): Claimed {
      return this.step({ type: 'claim', consumer: 'secret', claim, atMost: 9 }).reply as Claimed;
    }

    leases(): string[] {
      return [...this.engine.state.leases.all()].map(({ record }) => record.attempt ?? '');
    }
  }

  function begun(): ClaimKit {
    const kit = new ClaimKit();
    kit.pool('p', [24]);
    kit.step({ type: 'consumer', declared: consumer() });
    for (const id of ['a', 'b', 'c']) kit.submit(id, { type: 't' });
    return kit;
  }

  test('claims as many jobs as devices have memory for, each with its lease in the same commit', () => {
    const kit = begun();
    const before = kit.log.length;
    const { attempts, lacksDevice } = kit.claim();
    assert.deepEqual([attempts.map(({ token }) => token), lacksDevice], [['a:1', 'b:1'], true]);
    const made = kit.log.slice(before).map(({ change }) => `${change.kind} ${change.id}`);
    for (const token of ['a:1', 'b:1'])
      assert.ok(made.indexOf(`lease ${attemptLeaseId(token)}`) < made.indexOf(`attempt ${token}`), token);
    assert.deepEqual([kit.leases(), kit.state('c')], [['a:1', 'b:1'], 'claimed']);
    assert.deepEqual(kit.claim(1).attempts.length, 2, 'the answer was lost: the same again');
    assert.deepEqual(kit.claim().attempts, [], 'no memory is left');
  });

  test('gives the device back in the commit that ends the attempt, however it ends', () => {
    const kit = begun();
    kit.claim();
    const result = (token: string, outcome: object) =>
      kit.step({ type: 'results', consumer: 'secret', results: [{ token, outcome } as never] }).changes;
    const ended = result('a:1', { ok: true, result: '1' });
    assert.ok(ended.some(({ kind, after }) => kind === 'lease' && after === null));
    result('b:1', { ok: 'returned' });
    assert.deepEqual(kit.leases(), []);
    assert.equal(kit.claim().attempts.length, 2);
    kit.pass(TTL);
    assert.deepEqual(kit.leases(), [], 'its consumer has fallen silent');
  });

  test('whose pool is not there gets nothing, and changes nothing', () => {
    const kit = new ClaimKit();
    kit.pool('p', [24]);
    kit.step({ type: 'consumer', declared: consumer({ gpuPool: 'nowhere' }) });
    kit.submit('a', { type: 't' });
    const before = kit.log.length;
    const { attempts, lacksDevice } = kit.claim();
    assert.deepEqual([attempts, lacksDevice, kit.log.length], [[], true, before]);
  });

  test('the lease of an attempt is no lease of the caller: it takes no heartbeat and no release', () => {
    const kit = begun();
    kit.claim();
    const lease = attemptLeaseId('a:1');
    for (const type of ['heartbeat', 'release'] as const)
      assert.throws(() => {
        const { reply } = kit.step({ type, lease, tenant: 'default' });
        if (reply instanceof Error) throw reply;
      }, refusal('LEASE_NOT_HELD'));
    assert.equal(kit.leases().length, 2);
  });
});
