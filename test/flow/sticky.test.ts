/** Conversations stay on the seats that have heard them: brain, gateway and a provider that keeps threads. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { LASTING, onStores, WALKED, within } from './flow-kit.ts';
import { names, StickySite, TURNS } from './sticky-kit.ts';

const CONVERSATIONS = 32;
const ALL = CONVERSATIONS * TURNS;

const PATIENCE_MS = 180_000;

function assertHits(t: TestContext, site: StickySite): void {
  const { hits, later } = site.hits;
  t.diagnostic(`${hits} of ${later} later turns on their seat`);
  assert.equal(later, CONVERSATIONS * (TURNS - 1));
  assert.ok(hits >= 0.95 * later, `${hits} of ${later} hits`);
}

async function metric(site: StickySite, series: string): Promise<number> {
  const text = await (await fetch(`${site.url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length));
}

onStores(
  '[FANO-7] conversations stay on their seats, which get only what is new, and the metrics say so',
  WALKED,
  async (t, data) => {
    const site = await new StickySite(t, data).start();
    await within(site.converse(names(CONVERSATIONS)), PATIENCE_MS);
    assertHits(t, site);
    site.assertAskedOnce();
    site.assertSentOnce();
    site.assertHeard();
    const { hits, later } = site.hits;
    const turns = (context: string): Promise<number> =>
      metric(site, `orchd_conversation_turns_total{context="${context}"}`);
    assert.deepEqual(
      [await turns('held'), await turns('moved'), await turns('new')],
      [hits, later - hits, CONVERSATIONS],
    );
    const { totals } = await site.client.status();
    assert.deepEqual([totals?.turns_held, totals?.turns_moved], [hits, later - hits]);
  },
);

onStores(
  '[FANO-7] conversations stay on their seats over a killed brain and a killed gateway, and no turn is lost or asked twice',
  WALKED,
  async (t, data) => {
    const site = await new StickySite(t, data).start();
    const talks = within(site.converse(names(CONVERSATIONS)), PATIENCE_MS);
    const kills = async (): Promise<void> => {
      await site.provider.requested(Math.round(ALL / 4));
      await site.killBrain();
      await site.provider.requested(Math.round(ALL / 2));
      await site.killGateway();
      await site.provider.requested(Math.round((3 * ALL) / 4));
      await Promise.all([site.killBrain(), site.killGateway()]);
    };
    await Promise.all([talks, kills()]);
    assertHits(t, site);
    site.assertAskedOnce();
    site.assertHeard();
  },
);

onStores(
  '[FANO-7] a conversation whose seat is gone goes on at another one, which gets everything, and stays there',
  LASTING,
  async (t, data) => {
    const site = await new StickySite(t, data).start();
    for (const question of ['c.1', 'c.2']) await site.ask('c', question);
    const [{ seat = '' } = {}] = lastOf(site);
    await site.withoutSeat(seat);
    for (const question of ['c.3', 'c.4']) await site.ask('c', question);
    const later = lastOf(site, 2);
    assert.equal(new Set([seat, ...later.map((request) => request.seat)]).size, 2);
    site.assertAskedOnce();
    site.assertSentOnce();
    site.assertHeard();
  },
);

const lastOf = ({ provider }: StickySite, count = 1) => provider.requests.slice(-count);

onStores('a seat that has lost the thread gets everything again, in a new one', LASTING, async (t, data) => {
  const site = await new StickySite(t, data).start();
  for (const question of ['c.1', 'c.2']) await site.ask('c', question);
  const [{ thread, messages } = {}] = lastOf(site);
  assert.ok(thread !== undefined && messages?.length === 1, 'the thread goes on with what is new');
  site.provider.forgetThreads();
  await site.ask('c', 'c.3');
  const [again] = lastOf(site);
  assert.deepEqual([again?.thread, again?.messages.length], [undefined, 5]);
  await site.ask('c', 'c.4');
  assert.deepEqual(lastOf(site)[0]?.messages.length, 1, 'and goes on there');
  site.assertAskedOnce();
  site.assertHeard();
});

onStores('a turn in doubt does not go on in the thread that may have heard it', LASTING, async (t, data) => {
  const site = await new StickySite(t, data).start();
  await site.ask('c', 'c.1');
  site.provider.doubtful.add('c.2');
  await site.ask('c', 'c.2', { on_unknown: 'retry' });
  const [first, second] = lastOf(site, 2);
  assert.deepEqual(
    [first?.messages.length, second?.messages.length, second?.thread],
    [1, 3, undefined],
    'the second time everything is sent, in a new thread',
  );
  await site.ask('c', 'c.3');
  assert.equal(lastOf(site)[0]?.messages.length, 1);
  site.assertHeard();
});

onStores(
  'a client that changes what was said before begins a new thread, and so does a session after its deletion',
  LASTING,
  async (t, data) => {
    const site = await new StickySite(t, data).start();
    for (const question of ['c.1', 'c.2']) await site.ask('c', question);
    const said = site.said.get('c') as { role: string; content: string }[];
    said[0] = { role: 'user', content: 'c.1, I mean' };
    await site.ask('c', 'c.3');
    const [edited] = lastOf(site);
    assert.deepEqual([edited?.thread, edited?.messages.length], [undefined, 5]);
    await site.ask('c', 'c.4');
    assert.equal(lastOf(site)[0]?.messages.length, 1);
    await site.client.sessions.delete('c');
    await site.ask('c', 'c.5');
    const [after] = lastOf(site);
    assert.deepEqual([after?.thread, after?.messages.length], [undefined, 9]);
  },
);
