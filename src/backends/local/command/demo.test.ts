import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandKit, hear, offerOf, sh } from '../../../../test/fakes/command-kit.ts';
import { fits } from '../../../core/queue/fits.ts';
import { demoBackendOptions } from './demo.ts';

test('the demo answers word by word, and its answer says that it is not an LLM', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('true'), demoBackendOptions(kit.folder));
  const payloads = [
    { prompt: 'Why is the sky blue today?' },
    {
      messages: [
        { role: 'system', content: 'x' },
        { role: 'user', content: 'Why is the sky blue today?' },
      ],
    },
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'Why is the sky blue today?' }] }] },
  ];
  const answers = await Promise.all(
    payloads.map(async (payload, at) => {
      await backend.offer(offerOf(`job${at}:1`, { type: 'inference' }, payload));
      return hear(backend, `job${at}:1`);
    }),
  );
  for (const { text, events, outcome } of answers) {
    assert.match(text, /not an LLM/);
    assert.match(text, /"Why is the sky blue today\?"/);
    assert.match(text, /--model FILE.gguf/);
    assert.equal(events.length - 1, text.match(/\S*\s/g)?.length);
    assert.deepEqual(outcome, { ok: true, resultText: JSON.stringify({ text, exit_code: 0 }) });
  }
});

test('the demo fails a payload that is not JSON for good', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('true'), demoBackendOptions(kit.folder));
  await backend.offer({ ...offerOf('job:1', { type: 'inference' }), payloadText: '{' });
  const { outcome } = await hear(backend, 'job:1');
  assert.partialDeepStrictEqual(outcome, {
    ok: false,
    error: { message: 'exit code 65: the input is not JSON', retriable: false },
  });
});

test('the demo takes inference without a model, and the model "demo"', (t) => {
  const { info } = new CommandKit(t).backend(sh('true'), demoBackendOptions('unused'));
  const need = { kind: undefined, type: 'inference', model: undefined, labels: undefined };
  assert.ok(fits(need, info));
  assert.ok(fits({ ...need, model: 'demo' }, info));
  assert.ok(!fits({ ...need, model: 'gpt' }, info));
  assert.equal(info.kind, 'command');
  assert.equal(info.slots, 4);
  assert.equal(info.paid, false);
});
