/** Runs in the background: each has a session of its own, blocks nobody, and reports back. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { type Json, type Scripts, type Site, site } from './branch-kit.ts';
import { LASTING, onStores, within } from './flow-kit.ts';
import { ARCHIVING, archivedSession } from './session-archive-kit.ts';

const CONFIG = `
agents:
  - {name: boss, model: boss, tools: [scout, look], background: [scout]}
  - {name: scout, model: scout, tools: [pay]}
`;

/** The scout ends when it is let; the boss starts it, and then looks `looks` times before it answers. */
class Story {
  readonly #let = Promise.withResolvers<void>();
  readonly #looks: number;
  readonly paid: string[] = [];
  /** Called at each look. */
  looked: (n: number) => Promise<void> = async () => undefined;

  constructor(looks = 0) {
    this.#looks = looks;
  }

  end = (): void => this.#let.resolve();

  readonly scripts: Scripts = {
    boss: (_turn, { messages }) => {
      const last = messages.findLastIndex(({ content, role }) => role === 'user' && content === 'why?');
      const turn = messages.slice(last).filter(({ role }) => role === 'assistant').length;
      if (turn === 0) return { calls: [['a', 'scout', { input: 'go and see' }]] };
      if (turn <= this.#looks) return { calls: [[`l${turn}`, 'look', { n: turn }]] };
      const said = messages.slice(last).find(({ content }) => /has answered/.test(content));
      return { text: said ? `heard: ${said.content.split('\n')[2]}` : 'I do not wait' };
    },
    scout: async (turn) => {
      await this.#let.promise;
      return turn === 0 ? { calls: [['p', 'pay', {}]] } : { text: 'seen it' };
    },
  };

  readonly tools = [
    {
      name: 'look',
      description: 'Looks.',
      category: 'read',
      parameters: { type: 'object', properties: { n: { type: 'integer' } } },
      effect: 'pure' as const,
      run: async ({ n }: { n: number }) => {
        await this.looked(n);
        return 'seen';
      },
    },
    {
      name: 'pay',
      description: 'Pays.',
      category: 'write',
      parameters: { type: 'object' },
      effect: 'pure' as const,
      run: () => {
        this.paid.push('paid');
        return 'paid';
      },
    },
  ];
}

const SCOUT = 'r.2.0.0';

const messagesOf = async (brain: Site, session: string): Promise<string[]> =>
  ((await brain.call('GET', `/v2/sessions/${session}/messages`)).body.messages as Json[]).map(
    ({ content }) => content,
  );

const told = async (brain: Site, session: string): Promise<string[]> =>
  (await messagesOf(brain, session)).filter((text) => /^The agent "scout"/.test(text));

const SECRET = 'said in s';

/** What a caller reads of a job. */
async function textsOf({ brain: { orchestrator } }: Site, id: string): Promise<string> {
  const json = await orchestrator.getJson(id, DEFAULT_TENANT, 'later', 'payload');
  const payload = typeof json === 'string' ? json : json.pieces.map(String).join('');
  if (typeof json !== 'string') json.release();
  return JSON.stringify(await orchestrator.get(id)) + payload;
}

/** The session of its caller has been told of the end of the run. */
async function reported({ brain: { orchestrator } }: Site, run: string): Promise<void> {
  await within(orchestrator.wait(`${run}.report`));
  await within(orchestrator.wait(`${run}.report.told`));
}

describe('a run in the background', () => {
  onStores(
    '[ADR-10] outlives the run that has started it, has a session of its own, and is reported to that of its caller once',
    LASTING,
    async (t, data) => {
      const story = new Story();
      const { scripts, tools } = story;
      const before = await site(t, { data, config: CONFIG, scripts, tools });
      assert.equal((await before.run('boss', 'r', { session_id: 's' })).reply, 'I do not wait');
      assert.deepEqual(await told(before, 's'), []);
      // Another run of the session does not wait for it, either.
      assert.equal((await before.run('boss', 'q', { session_id: 's' })).reply, 'I do not wait');
      assert.ok(['llm_call', 'llm_queued'].includes((await before.view(SCOUT)).state));
      await before.brain.stop();
      story.end();
      const brain = await site(t, { data, config: CONFIG, scripts, tools });
      for (const run of [SCOUT, 'q.2.0.0']) {
        assert.equal((await brain.end(run)).reply, 'seen it');
        await reported(brain, run);
      }
      const reports = (await told(brain, 's')).sort();
      assert.deepEqual(
        reports.map((text) =>
          /as run ([\w.]+), has answered:\n--- data \w+ ---\n(.*)\n/.exec(text)?.slice(1),
        ),
        [
          ['q.2.0.0', 'seen it'],
          [SCOUT, 'seen it'],
        ],
      );
      assert.ok((await messagesOf(brain, SCOUT)).includes('go and see'), 'it has a session of its own');
      assert.equal((await brain.call('POST', '/v2/runs/r/replay', {})).body.equal, true);
      assert.equal((await brain.call('POST', `/v2/runs/${SCOUT}/replay`, {})).body.equal, true);
    },
  );

  onStores(
    'is told to the run that has started it while that goes on, and not twice',
    LASTING,
    async (t, data) => {
      const story = new Story(1);
      const { scripts, tools } = story;
      const brain = await site(t, { data, config: CONFIG, scripts, tools });
      const { orchestrator } = brain.brain;
      story.looked = async () => {
        story.end();
        await orchestrator.wait(SCOUT);
      };
      assert.equal((await brain.run('boss', 'r', { session_id: 's' })).reply, 'heard: seen it');
      await reported(brain, SCOUT);
      assert.equal((await told(brain, 's')).length, 1);
      const { equal, difference } = (await brain.call('POST', '/v2/runs/r/replay', {})).body;
      assert.deepEqual([equal, difference], [true, undefined]);
      assert.equal((await brain.run('boss', 'alone')).state, 'completed', 'without a session, too');
    },
  );

  onStores(
    'has no more rights than those who have started it, whom memory has forgotten',
    LASTING,
    async (t, data) => {
      const story = new Story();
      const { scripts, tools } = story;
      const config = CONFIG.replace('background: [scout]', 'background: [scout], categories: [read, agent]');
      const before = await site(t, { data, config, scripts, tools });
      await before.run('boss', 'r');
      await before.brain.stop();
      // After a restart only what goes on is in memory.
      const brain = await site(t, { data, config, scripts, tools });
      story.end();
      const { state, steps } = await brain.end(SCOUT);
      assert.equal(state, 'completed');
      assert.deepEqual(story.paid, []);
      assert.deepEqual(
        steps?.flatMap(({ tool, error }) => (tool ? [[tool, error]] : [])),
        [['pay', 'GOVERNANCE_DENIED']],
      );
    },
  );

  onStores('is cancelled with the run that has started it, and reports that', LASTING, async (t, data) => {
    const story = new Story(1);
    const { scripts, tools } = story;
    const brain = await site(t, { data, config: CONFIG, scripts, tools });
    const looks = Promise.withResolvers<void>();
    story.looked = () => looks.promise;
    await brain.start('boss', 'r', { session_id: 's' });
    await brain.until('r', ({ waits_for: waits }) => waits?.[0]?.job_id === 'r.4.0');
    await brain.call('POST', '/v2/runs/r/cancel');
    looks.resolve();
    assert.equal((await brain.end(SCOUT)).state, 'cancelled');
    await reported(brain, SCOUT);
    assert.match((await told(brain, 's')).join(), /has not answered/);
    story.end();
  });

  onStores(
    'is deleted with the session it was started from: what was said there is nowhere, also once it is archived',
    LASTING,
    async (t, data) => {
      const [began, never] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const scripts: Scripts = {
        boss: (turn, { messages }) => {
          if (messages.at(-1)?.content !== 'why?') return { text: 'I do not wait' };
          return { calls: [['a', 'scout', { input: `${SECRET}, ${turn}` }]] };
        },
        // That of the first run ends, and that of the other one does not.
        scout: async (_, { messages }) => {
          const told = JSON.stringify(messages);
          if (told.includes(`${SECRET}, 0`)) return { text: `${SECRET} is seen` };
          began.resolve();
          await never.promise;
          return { text: '' };
        },
      };
      const config = `${CONFIG}${ARCHIVING}`;
      const brain = await site(t, { data, config, scripts, tools: new Story().tools });
      const { orchestrator } = brain.brain;
      await brain.run('boss', 'r', { session_id: 's' });
      await reported(brain, SCOUT);
      await archivedSession(orchestrator, SCOUT);
      await brain.run('boss', 'q', { session_id: 's' });
      await within(began.promise);
      const jobs = [SCOUT, `${SCOUT}.1`, 'q.2.0.0', 'q.2.0.0.1'];
      for (const id of jobs)
        assert.ok((await textsOf(brain, id)).includes(SECRET), `${id} is readable before`);
      assert.equal((await brain.call('DELETE', '/v2/sessions/s')).status, 204);
      for (const id of jobs) assert.ok(!(await textsOf(brain, id)).includes(SECRET), id);
      for (const id of [SCOUT, 'q.2.0.0'])
        assert.equal((await brain.call('GET', `/v2/sessions/${id}`)).status, 404);
      assert.equal((await brain.view('q.2.0.0')).state, 'cancelled');
      never.resolve();
    },
  );

  onStores('of a caller of the API reports to the session that it names', LASTING, async (t, data) => {
    const story = new Story();
    const { scripts, tools } = story;
    const brain = await site(t, { data, config: CONFIG, scripts, tools });
    assert.equal((await brain.call('POST', '/v2/sessions', { session_id: 'chat' })).status, 201);
    const request = { session_id: 'own', report_to: 'chat' };
    for (let twice = 0; twice < 2; twice++) await brain.start('scout', 'x', request);
    story.end();
    await brain.end('x');
    await reported(brain, 'x');
    assert.deepEqual((await messagesOf(brain, 'chat')).length, 1);
    assert.match((await told(brain, 'chat')).join(), /as run x, has answered:\n--- data \w+ ---\nseen it/);
    // Nothing is told to a session that somebody has deleted.
    await brain.call('DELETE', '/v2/sessions/chat');
    await brain.run('scout', 'y', { session_id: 'own', report_to: 'chat' });
    const { result } = await within(brain.brain.orchestrator.wait('y.report'));
    assert.deepEqual(result, { told: false });
    assert.equal((await brain.call('GET', '/v2/sessions/chat')).status, 404);
  });
});
