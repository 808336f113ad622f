/** Checkpoints: between two steps of a run a person must say that it may go on. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { type Json, type Scripts, site } from './branch-kit.ts';
import { LASTING, onStores } from './flow-kit.ts';

const config = (waitMs = 600_000): string => `
agents:
  - {name: all, model: m, plan: always, tools: [look], checkpoints: [plan, tools, synthesis], approval_wait_ms: ${waitMs}}
  - {name: team, model: m, branches: [critic], checkpoints: [synthesis], approval_wait_ms: ${waitMs}}
  - {name: critic, model: m}
`;

const scripts: Scripts = {
  m: (_turn, { messages, tools = [] }) => {
    if (messages.some(({ content }) => /Write only the plan/.test(content)))
      return { text: 'look, then answer' };
    const hasLooked = messages.some(({ role }) => role === 'tool');
    return tools.length > 0 && !hasLooked ? { calls: [['c', 'look', { at: 'it' }]] } : { text: 'the answer' };
  },
};

const toolsOf = (done: string[]) => [
  {
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object', properties: { at: { type: 'string' } } },
    effect: 'pure' as const,
    run: ({ at }: { at: string }) => {
      done.push(at);
      return 'seen';
    },
  },
];

describe('a checkpoint', () => {
  onStores(
    '[ADR-10] after the plan, before tools and before the synthesis a person says that the run goes on, also after a restart',
    LASTING,
    async (t, data) => {
      const done: string[] = [];
      const options = { data, config: config(), scripts, tools: toolsOf(done) };
      let brain = await site(t, options);
      await brain.start('all', 'r');
      const seen: Json[] = [];
      for (let at = 0; at < 3; at++) {
        const [asked] = await brain.asked(1);
        assert.equal((await brain.view('r')).state, 'awaiting_approval');
        seen.push([asked.checkpoint, asked.args, asked.tool, [...done]]);
        await brain.brain.stop();
        brain = await site(t, options);
        const answer = { call_id: asked.call_id, approve: true, hash: asked.hash };
        assert.equal((await brain.call('POST', '/v2/runs/r/approve', answer)).status, 200);
        if (at < 2)
          await brain.until(
            'r',
            ({ waits_for: waits }) => waits?.[0]?.job_id !== asked.call_id && waits?.[0]?.type === 'approval',
          );
      }
      assert.deepEqual(seen, [
        ['plan', { plan: 'Plan:\nlook, then answer' }, undefined, []],
        ['tools', { calls: [{ tool: 'look', arguments: '{"at":"it"}' }] }, undefined, []],
        ['synthesis', { reply: 'the answer' }, undefined, ['it']],
      ]);
      const view = await brain.end('r');
      assert.deepEqual([view.state, view.reply], ['completed', 'the answer']);
      assert.deepEqual(
        view.steps?.map(({ event, job_id: id }) => `${event} ${id}`),
        [
          'plan r.1',
          'approval r.2.0',
          'llm_call r.3',
          'approval r.4.0',
          'tool_call r.5.0',
          'llm_call r.6',
          'approval r.7.0',
        ],
      );
      const { body } = await brain.call('POST', '/v2/runs/r/replay', {});
      assert.deepEqual([body.equal, body.difference, body.has_end], [true, undefined, true]);
    },
  );

  onStores(
    '[ADR-10] a no ends the run, which does nothing more; so does no answer in time',
    LASTING,
    async (t, data) => {
      const done: string[] = [];
      const brain = await site(t, { data, config: config(), scripts, tools: toolsOf(done) });
      await brain.start('all', 'r');
      const [plan] = await brain.asked(1);
      const no = { call_id: plan.call_id, approve: false, why: 'a bad plan' };
      await brain.call('POST', '/v2/runs/r/approve', no);
      const { state, error, reply } = await brain.end('r');
      assert.deepEqual([state, error?.code], ['failed', 'CHECKPOINT_DENIED']);
      assert.match(reply ?? '', /a bad plan/);
      await brain.brain.stop();
      const late = await site(t, { data, config: config(1000), scripts, tools: toolsOf(done) });
      const view = await late.run('all', 'late');
      assert.deepEqual([view.state, view.error?.code], ['failed', 'CHECKPOINT_DENIED']);
      assert.match(view.reply ?? '', /nobody answered in time/);
      assert.deepEqual(done, []);
      assert.deepEqual(
        [...brain.calls, ...late.calls].filter((call) => call.startsWith('+')),
        ['+r.1', '+late.1'],
      );
      for (const id of ['r', 'late'])
        assert.equal((await late.call('POST', `/v2/runs/${id}/replay`, {})).body.equal, true, id);
    },
  );

  onStores(
    'before the synthesis of branches shows what they said, and a fork asks again',
    LASTING,
    async (t, data) => {
      const brain = await site(t, { data, config: config(), scripts, tools: toolsOf([]) });
      await brain.start('team', 'r');
      const [asked] = await brain.asked(1);
      assert.equal(asked.checkpoint, 'synthesis');
      assert.match(asked.args.branches[0], /^critic says:\n--- data \w+ ---\nthe answer\n/);
      assert.deepEqual(
        brain.calls.filter((call) => call === '+r.3'),
        [],
      );
      await brain.call('POST', '/v2/runs/r/approve', { call_id: asked.call_id, approve: true });
      assert.equal((await brain.end('r')).reply, 'the answer');
      const { body } = await brain.call('POST', '/v2/runs/r/fork', { step: 2, run_id: 'f' });
      assert.equal(body.run_id, 'f');
      const [again] = await brain.asked(1);
      assert.deepEqual([again.run_id, again.checkpoint, again.args], ['f', 'synthesis', asked.args]);
      await brain.call('POST', '/v2/runs/f/approve', { call_id: again.call_id, approve: true });
      assert.equal((await brain.end('f')).reply, 'the answer');
      assert.ok(
        !(await brain.jobs('f')).some(({ type }) => type === 'agent'),
        'the branches are those of the origin',
      );
      for (const id of ['r', 'f'])
        assert.equal((await brain.call('POST', `/v2/runs/${id}/replay`, {})).body.equal, true, id);
    },
  );
});
