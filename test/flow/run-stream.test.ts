/** The stream of a run: its calls as they happen, what it asks people, and readers that come back. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Tool } from '../../src/index.ts';
import { type SseEvent, SseReader } from '../../src/wire/sse.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { within } from './flow-kit.ts';

const CONFIG = `
agents:
  - {name: clerk, model: scripted, tools: [slow, quick, pay], approve: [pay]}
`;

/** `slow` ends when it is let; `broken` is asked of `quick`. */
class Site {
  readonly slow = Promise.withResolvers<string>();
  readonly model: ScriptedModel;
  brain!: HttpBrain;

  constructor(script: ConstructorParameters<typeof ScriptedModel>[0]) {
    this.model = new ScriptedModel(script);
  }

  get #tools(): readonly Tool[] {
    const tool = { description: 'A tool.', parameters: { type: 'object' }, effect: 'pure' } as const;
    const quick = ({ how }: { how?: string }): string => {
      if (how === 'broken') throw new Error('it is broken');
      return 'at once';
    };
    return [
      { ...tool, name: 'slow', run: () => this.slow.promise },
      { ...tool, name: 'quick', run: quick },
      { ...tool, name: 'pay', run: () => 'paid' },
    ];
  }

  async open(t: TestContext, slots = 4): Promise<this> {
    const backends = [this.model.backend({ slots })];
    this.brain = await httpBrain({ config: CONFIG, backends, tools: this.#tools });
    t.after(() => this.brain.stop());
    return this;
  }

  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  async post(path: string, body: object): Promise<any> {
    const response = await fetch(this.brain.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return response.json();
  }

  start = (run = 'r') => this.post('/v2/agents/clerk/runs', { run_id: run, input: 'go' });

  /** The events of the run until `until` has seen enough. */
  async *events(last?: string): AsyncGenerator<SseEvent> {
    const arrived: SseEvent[] = [];
    const reader = new SseReader((event) => void arrived.push(event));
    const headers = last === undefined ? {} : { 'last-event-id': last };
    const response = await fetch(`${this.brain.url}/v2/runs/r/events`, { headers });
    assert.equal(response.status, 200);
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
      reader.push(Buffer.from(piece).toString());
      for (const event of arrived.splice(0)) yield event;
    }
  }

  async seen(until: (event: SseEvent) => boolean, last?: string): Promise<SseEvent[]> {
    const seen: SseEvent[] = [];
    for await (const event of this.events(last)) {
      seen.push(event);
      if (until(event)) break;
    }
    return seen;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
const dataOf = ({ data }: SseEvent): any => JSON.parse(data);
const named =
  (name: string) =>
  ({ event }: SseEvent): boolean =>
    event === name;
const HELLO = [{ role: 'user', content: 'hello' }];
const never = (): boolean => false;

const BOTH: Said = {
  calls: [
    ['a', 'slow', {}],
    ['b', 'quick', {}],
    ['c', 'quick', { how: 'broken' }],
  ],
};

describe('the stream of a run', () => {
  test('tells the end of each call when it ends, with its tool and whether it went well', async (t) => {
    const site = await new Site((turn) => (turn === 0 ? BOTH : { text: 'done' })).open(t);
    await site.start();
    const results: unknown[] = [];
    const kinds: unknown[] = [];
    const run = async (): Promise<void> => {
      for await (const event of site.events()) {
        if (event.event === 'step') {
          const { step, event: kind, model_role: role, calls } = dataOf(event);
          kinds.push([step, kind, role ?? calls]);
        }
        if (event.event !== 'tool_result') continue;
        const { call_id, tool, ok } = dataOf(event);
        results.push([call_id, tool, ok]);
        // The slow call ends only after the others were told.
        if (results.length === 2) site.slow.resolve('at last');
      }
    };
    await within(run());
    assert.deepEqual(results.slice(0, 2).sort(), [
      ['r.2.1', 'quick', true],
      ['r.2.2', 'quick', false],
    ]);
    assert.deepEqual(results.slice(2), [['r.2.0', 'slow', true]]);
    const call = (call_id: string, tool: string) => ({ call_id, event: 'tool_call', tool });
    assert.deepEqual(kinds, [
      [1, 'llm_call', 'primary'],
      [2, 'tool_call', [call('r.2.0', 'slow'), call('r.2.1', 'quick'), call('r.2.2', 'quick')]],
      [3, 'llm_call', 'primary'],
    ]);
  });

  test('a reader that comes back gets every event with an id once, also of steps that it missed', async (t) => {
    const site = await new Site((turn) =>
      turn === 0 ? { text: 'let me see', ...BOTH } : { text: 'I have seen' },
    ).open(t);
    await site.start();
    let last = '';
    const whole: SseEvent[] = [];
    const texts: Record<string, string> = {};
    const read = async (until: (event: SseEvent) => boolean): Promise<void> => {
      const seen = await within(site.seen(until, last));
      whole.push(...seen.filter(({ id }) => id !== undefined));
      for (const event of seen) {
        const { job_id: job, t: word } = dataOf(event);
        // The pieces of a call that has ended are not kept: a reset says that its text comes anew.
        if (event.event === 'reset') texts[job] = '';
        if (event.event === 'token') texts[job] = (texts[job] ?? '') + word;
      }
      last = seen.findLast(({ id }) => id !== undefined)?.id ?? last;
    };
    // It leaves in the middle of the words, between two results, and comes back when all is over.
    await read((event) => event.event === 'token' && dataOf(event).t === 'me ');
    await read(named('tool_result'));
    site.slow.resolve('at last');
    await within(site.brain.orchestrator.wait('r'));
    await read(never);
    const ids = whole.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, ids.join(' '));
    const kinds = whole.map(({ event }) => event).filter((event) => event !== 'token');
    const three = ['tool_result', 'tool_result', 'tool_result'];
    assert.deepEqual(kinds, ['step', 'step', ...three, 'step', 'end']);
    assert.deepEqual(texts, { 'r.1': 'let me see', 'r.3': 'I have seen' });
    const results = whole.filter(named('tool_result')).map((event) => dataOf(event).call_id);
    assert.deepEqual(results.sort(), ['r.2.0', 'r.2.1', 'r.2.2']);
  });

  test('tells that a call waits to be allowed, until when, and how it was answered', async (t) => {
    const site = await new Site((turn) =>
      turn === 0
        ? {
            calls: [
              ['a', 'pay', {}],
              ['b', 'pay', { twice: true }],
            ],
          }
        : { text: 'done' },
    ).open(t);
    await site.start();
    const asked: unknown[] = [];
    const answered: unknown[] = [];
    const run = async (): Promise<void> => {
      for await (const event of site.events()) {
        if (event.event !== 'approval') continue;
        const { call_id: id, tool, hash, state, expires_at: expires, approved, why } = dataOf(event);
        if (state === 'answered') answered.push([id, tool, approved, why, event.id !== undefined]);
        else {
          asked.push(id);
          assert.match(hash, /^[0-9a-f]{64}$/);
          assert.ok(expires > 0);
          const approve = id === 'r.2.0';
          const body = { call_id: id, approve, hash, ...(!approve && { why: 'not twice' }) };
          assert.equal((await site.post('/v2/runs/r/approve', body)).error, undefined);
        }
      }
    };
    await within(run());
    assert.deepEqual(asked.sort(), ['r.2.0', 'r.2.1']);
    assert.deepEqual(answered.sort(), [
      ['r.2.0', 'pay', true, undefined, true],
      ['r.2.1', 'pay', false, 'not twice', true],
    ]);
  });

  test('takes back the words of a call of the model that failed, also for a reader that comes back', async (t) => {
    const goOn = Promise.withResolvers<void>();
    let calls = 0;
    const site = await new Site(async (_turn, _heard, { emit }) => {
      if (calls++ > 0) return { text: 'whole' };
      emit('half ');
      await goOn.promise;
      throw new Error('it broke off');
    }).open(t);
    await site.start();
    const first = await within(site.seen(named('token')));
    assert.deepEqual(dataOf(first.at(-1)!), { t: 'half ', i: 0, job_id: 'r.1' });
    const following = site.seen(never, first.at(-1)?.id);
    goOn.resolve();
    const rest = await within(following);
    const told = rest.filter(({ event }) => event !== 'queued');
    assert.deepEqual(
      told.map(({ event }) => event),
      ['reset', 'step', 'token', 'end'],
    );
    assert.equal(dataOf(told[0]!).job_id, 'r.1');
    assert.deepEqual(dataOf(told[2]!).job_id, 'r.2');
  });

  test('tells at once that the run is paused and resumed, also to a reader that comes back', async (t) => {
    const asks: Said = { calls: [['a', 'pay', {}]] };
    const site = await new Site((turn) => (turn === 0 ? asks : { text: 'done' })).open(t);
    await site.start();
    const isWaiting = (event: SseEvent): boolean => event.event === 'approval';
    const first = await within(site.seen(isWaiting));
    const last = first.findLast(({ id }) => id !== undefined)?.id;
    const paused = site.seen(named('paused'), last);
    await site.post('/v2/runs/r/pause', {});
    const pause = (await within(paused)).at(-1) as SseEvent;
    assert.partialDeepStrictEqual(dataOf(pause), { job_id: 'r', by: 'local' });
    assert.equal(pause.id, `${last}p`);
    const known = await within(site.seen(isWaiting, pause.id));
    assert.deepEqual(
      known.map(({ event }) => event).filter((event) => event === 'paused'),
      [],
    );
    const fresh = await within(site.seen(isWaiting));
    assert.ok(fresh.some(named('paused')), 'whoever comes anew is told');
    await site.post('/v2/runs/r/resume', {});
    const back = await within(site.seen(named('resumed'), pause.id));
    assert.equal(back.at(-1)?.id, last);
    const rest = site.seen(never, back.at(-1)?.id);
    await site.post('/v2/runs/r/approve', { call_id: 'r.2.0', approve: true });
    const events = (await within(rest)).map(({ event }) => event);
    assert.deepEqual(
      [events.at(-1), events.includes('paused'), events.includes('resumed')],
      ['end', false, false],
    );
  });

  test('tells the place of a call in the queue as it changes', async (t) => {
    const gates = new Map<string, () => void>();
    const site = await new Site(
      () => new Promise((done) => gates.set(`${gates.size}`, () => done({ text: 'x' }))),
    ).open(t, 1);
    // Two jobs are before the call of the run.
    for (const job_id of ['one', 'two'])
      await site.post('/v2/tasks', {
        job_id,
        model: 'scripted',
        priority: 'interactive',
        agent: 'clerk',
        messages: HELLO,
      });
    await site.start();
    const places: number[] = [];
    const run = async (): Promise<void> => {
      for await (const event of site.events()) {
        if (event.event !== 'queued' || dataOf(event).job_id !== 'r.1') continue;
        places.push(dataOf(event).queue_position);
        gates.get(`${gates.size - 1}`)?.();
        if (places.at(-1) === 0) break;
      }
    };
    await within(run());
    assert.deepEqual(places, [1, 0]);
  });
});
