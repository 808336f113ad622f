/** Commands as tools of agents on a real server: killed while one runs, and on a machine where bubblewrap does not work. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { needDebian } from '../fakes/debian.ts';
import { orchd } from './cli-process.ts';
import { within } from './flow-kit.ts';
import { testFolder } from './server-process.ts';
import { modelServer, serveUpstreams, upstreamFolder } from './upstream-kit.ts';

const delta = (value: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: value, finish_reason: finish }] })}\n\n`;

/** A server of a model that asks for `pay` once, and then repeats what it was told. */
async function payingModel(t: TestContext) {
  const model = await modelServer(t, ['qwen3']);
  model.paths.set('/v1/chat/completions', (_request, response, body) => {
    const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] };
    const told = messages.find(({ role }) => role === 'tool')?.content;
    const call = { index: 0, id: 'c', type: 'function', function: { name: 'pay', arguments: '{}' } };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(delta(told === undefined ? { tool_calls: [call] } : { content: told }));
    response.end(`${delta({}, told === undefined ? 'tool_calls' : 'stop')}data: [DONE]\n\n`);
  });
  return model;
}

const settingsOf = (folder: string, script: string): object => ({
  agents: [
    {
      name: 'clerk',
      model: 'qwen3',
      tools: ['pay'],
      commands: [{ name: 'pay', description: 'Pays.', argv: ['sh', '-c', script], folder }],
    },
  ],
});

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

test('a command goes on while the brain is killed, and its run goes on with what it said, without a second one', async (t) => {
  await needDebian('bubblewrap', 'bwrap');
  const folder = testFolder(t);
  const data = upstreamFolder(t);
  const model = await payingModel(t);
  const ledger = join(folder, 'ledger');
  const lines = (): string => (fs.existsSync(ledger) ? fs.readFileSync(ledger, 'utf8') : '');
  const script =
    'echo begun >> ledger; while [ ! -e go ]; do sleep 0.05; done; echo ended >> ledger; echo paid';
  const settings = settingsOf(folder, script);
  const first = await serveUpstreams(t, [{ url: model.url }], { data, settings });
  await first.api.untilModels('qwen3', 'agent:clerk');
  assert.equal((await first.api.post('/v2/agents/clerk/runs', { run_id: 'r', input: 'pay' })).status, 202);
  const isBegun = async (): Promise<boolean> => {
    const { approvals } = await first.api.get('/v2/approvals');
    for (const { call_id } of approvals)
      await first.api.post('/v2/runs/r/approve', { call_id, approve: true });
    return lines() === 'begun\n';
  };
  await within(until(isBegun));
  await first.kill();
  fs.writeFileSync(join(folder, 'go'), '');
  await within(until(() => lines() === 'begun\nended\n'));
  const second = await serveUpstreams(t, [{ url: model.url }], { data, settings });
  const { result } = await within(second.api.ended('r'));
  assert.match(result.reply, /^--- data .*\npaid\n\n--- end of data/);
  assert.equal(lines(), 'begun\nended\n');
});

test('where bubblewrap does not work, the log, the API and the command line say that each call must be allowed', async (t) => {
  const folder = testFolder(t);
  const bin = join(folder, 'bin');
  fs.mkdirSync(bin);
  fs.writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho "bwrap: not permitted" >&2; exit 1\n', {
    mode: 0o755,
  });
  const env = { PATH: [bin, process.env['PATH']].join(delimiter) };
  const model = await payingModel(t);
  const work = join(folder, 'work');
  fs.mkdirSync(work);
  const settings = settingsOf(work, 'echo paid > paid');
  const brain = await serveUpstreams(t, [{ url: model.url }], { settings, env });
  await within(brain.saw('out', /commands of agents are not confined.*bwrap: not permitted \(pay\)/));
  await brain.api.untilModels('qwen3', 'agent:clerk');
  const { agents } = await brain.api.get('/v2/agents');
  assert.deepEqual(agents[0].unconfined, ['pay']);
  const how = { env: { ORCHD_URL: brain.url } };
  assert.match((await orchd(['agents'], how)).out, /pay!/);
  assert.match((await orchd(['agents', 'clerk'], how)).out, /to allow +pay: bubblewrap does not work there/);
  await brain.api.post('/v2/agents/clerk/runs', { run_id: 'r', input: 'pay' });
  await within(until(async () => (await brain.api.get('/v2/runs/r')).state === 'awaiting_approval'));
  assert.match((await orchd(['approvals'], how)).out, /clerk wants to call pay/);
  assert.equal(fs.existsSync(join(work, 'paid')), false);
});
