/** Lists that only grow, on a store in memory that counts the bytes of its blobs. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { BlobTies, Recovery, Store, StoreEvents } from '../core/ports/store.ts';
import { ByteRoom } from '../kit/byte-room.ts';
import { realEnv } from '../kit/env/real.ts';
import type { BlobRef, Body } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import { MemoryStore } from '../stores/memory/memory.ts';
import { Bodies } from './bodies.ts';
import { composedPayload, keepState } from './growing-lists.ts';

const OWNER = { tenant: 'default', session: undefined, root: 'run' };
const text = (n: number): string => `${n}:${'x'.repeat(1000)}`;

const env = realEnv();

async function opened(): Promise<Store> {
  const store = new MemoryStore(env.timers);
  const events = { durable: () => undefined, indexed: () => undefined } as Partial<StoreEvents>;
  await store.open(events as StoreEvents, 0, {} as Recovery);
  return store;
}
/** The keys outlive the bodies in memory, as those of a store do. */
const { keys } = await opened();
let blobs: string[];
let ties: (BlobTies | undefined)[];
let scattered: boolean;
let bodies: Bodies;

const newBodies = (): Bodies =>
  new Bodies(
    {
      putBlob: async (body: string, given?: BlobTies) => {
        ties.push(given);
        return { bytes: body.length, at: blobs.push(body) - 1 } as BlobRef;
      },
      readBlob: async (ref: BlobRef) => {
        const blob = blobs[(ref as never as { at: number }).at];
        if (blob === undefined) throw new OrchdError('STORE_CORRUPT');
        return Buffer.from(blob);
      },
      isScattered: () => scattered,
      keys,
    } as Partial<Store> as Store,
    env,
    new ByteRoom(2 ** 20),
  );

beforeEach(() => {
  blobs = [];
  ties = [];
  scattered = false;
  bodies = newBodies();
});

/** Grows a list of messages by one value a step; returns the state of the last one. */
async function steps(count: number, values: unknown[] = []): Promise<{ state: Body; values: unknown[] }> {
  let last: Body | undefined;
  for (let n = 0; n < count; n++) {
    values.push(text(n));
    const lists = { messages: values, notes: values.map((_, at) => at) };
    const kept = await keepState(bodies, { lists, restText: `{"n":${n}}`, last, owner: OWNER });
    last = kept.state;
  }
  return { state: last as Body, values };
}

test('a small state stays inside its record', async () => {
  const { state } = await steps(1);
  assert.equal(typeof state, 'string');
  assert.equal(blobs.length, 0);
});

test('a state that grows is read back whole, also by another process', async () => {
  const { state, values } = await steps(300);
  bodies = newBodies();
  const expected = { messages: values, notes: values.map((_, at) => at), n: 299 };
  assert.deepEqual(JSON.parse(await bodies.read(state)), expected);
});

test('each step stores only what is new', async () => {
  const { values } = await steps(100);
  const said = JSON.stringify(values).length;
  const written = blobs.join('').length;
  assert.ok(written < 1.7 * said, `${written} bytes for ${said}`);
});

test('a state without fields of its own, or with an empty list, is read back', async () => {
  const big = Array.from({ length: 9 }, (_, n) => text(n));
  const kept = await keepState(bodies, {
    lists: { none: [], messages: big },
    restText: '{}',
    last: undefined,
    owner: OWNER,
  });
  assert.deepEqual(JSON.parse(await bodies.read(kept.state)), { none: [], messages: big });
});

test('a payload that begins with a stored list names it; one with other values does not', async () => {
  const values = Array.from({ length: 9 }, (_, n) => ({ content: text(n) }));
  const { stored } = await keepState(bodies, {
    lists: { messages: values },
    restText: '{}',
    last: undefined,
    owner: OWNER,
  });
  const payload = { max_tokens: 7, messages: [...values, { content: 'more' }] };
  const composition = composedPayload(payload, stored);
  assert.ok(composition);
  const body = await bodies.compose(composition, OWNER);
  assert.deepEqual(JSON.parse(await bodies.read(body)), payload);
  assert.ok((body as BlobRef).bytes < 300);
  assert.equal(composedPayload({ messages: values.slice(1) }, stored), undefined);
  assert.equal(composedPayload({ messages: values.map((each) => ({ ...each })) }, stored), undefined);
  assert.equal(composedPayload('text', stored), undefined);
});

test('the store learns which blobs a composed one needs, and who owns a part', async () => {
  const { state } = await steps(20);
  const refs = ties.flatMap((each) => each?.needs ?? []);
  assert.ok(refs.length > 20);
  const parts = ties.filter((each) => each?.owner);
  assert.ok(parts.every((each) => each?.owner && 'job' in each.owner && each.owner.job === 'run'));
  assert.ok(parts.length >= 2 * 16);
  assert.equal(typeof state, 'object');
  const owner = { tenant: 'default', session: 's', root: 'run' };
  const part = await bodies.append(undefined, ['a'], owner);
  assert.equal(part.values, 1);
  assert.ok('session' in (ties.at(-1)?.owner ?? {}));
});

test('a list whose blobs lie far apart is written anew', async () => {
  let part = await bodies.append(undefined, [1, 2], OWNER);
  scattered = true;
  part = await bodies.append(part, [3], OWNER);
  assert.deepEqual(part.links, 1);
  assert.equal(await bodies.read(part.ref), '1,2,3');
});

test('of a session, no text of a composed body is readable in the blobs, and all of it for its owner', async () => {
  const owner = { tenant: 'default', session: 's', root: 'run' };
  const said = (n: number) => ({ content: `said-${text(n)}` });
  const values = Array.from({ length: 9 }, (_, n) => said(n));
  const last = await keepState(bodies, {
    lists: { messages: values },
    restText: '{}',
    last: undefined,
    owner,
  });
  const more = [...values, said(9)];
  const restText = '{"note":"said-note"}';
  const { state, stored } = await keepState(bodies, {
    lists: { messages: more },
    restText,
    last: last.state,
    owner,
  });
  const payload = { tools: ['said-tool'], messages: [said(10), ...more, said(11)] };
  const body = await bodies.compose(composedPayload(payload, stored) ?? assert.fail(), owner);
  const plain = await bodies.compose(composedPayload({ messages: more }, stored) ?? assert.fail(), owner);
  assert.ok(blobs.length >= 4 && !blobs.some((blob) => blob.includes('said-')));
  bodies = newBodies();
  assert.deepEqual(JSON.parse(await bodies.read(state)), { messages: more, note: 'said-note' });
  assert.deepEqual(JSON.parse(await bodies.read(body)), payload);
  await bodies.erase({ tenant: 'default', session: 's' });
  await assert.rejects(bodies.read(body), { code: 'NOT_FOUND' });
  // The store drops what only the session needed; the jobs in the history, and their own bodies, stay.
  blobs.fill(undefined as never, 0, -1);
  assert.equal(await bodies.readable(plain), undefined);
});

for (const session of [undefined, 's'])
  test(`the result of a tool is not stored again with what is said of it${session ? ', sealed' : ''}`, async () => {
    const owner = { ...OWNER, session };
    const said = 'a line that a tool returned\n'.repeat(400);
    const result = (await bodies.store(JSON.stringify({ ok: true, text: said }), owner)) as BlobRef;
    const stored = blobs.join('').length;
    const lists = {
      messages: [
        { role: 'user', content: text(1) },
        { role: 'tool', content: `data\n${said}` },
      ],
    };
    const { state } = await keepState(bodies, {
      lists,
      restText: '{}',
      last: undefined,
      owner,
      known: [result],
    });
    assert.ok(blobs.join('').length - stored < 4000);
    assert.ok(ties.some((each) => each?.needs?.includes(result)));
    bodies = newBodies();
    assert.deepEqual(JSON.parse(await bodies.read(state)), lists);
    const more = { messages: [...lists.messages, { role: 'user', content: 'and then?' }] };
    const next = await keepState(bodies, { lists: more, restText: '{}', last: state, owner });
    bodies = newBodies();
    assert.deepEqual(JSON.parse(await bodies.read(next.state)), more);
  });

test('what is stored while its session is deleted is not kept in memory, where it could still be read', async () => {
  const owner = { ...OWNER, session: 'deleted' };
  await bodies.store('"the key is made"', owner);
  const [body, list] = [
    bodies.store(JSON.stringify(text(1).repeat(9)), owner),
    bodies.append(undefined, [1], owner),
  ];
  await bodies.erase({ tenant: owner.tenant, session: owner.session });
  assert.equal(await bodies.readable(await body), undefined);
  assert.equal(await bodies.readable((await list).ref), undefined);
});
