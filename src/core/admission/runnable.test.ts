import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fields } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';

function refusal(kit: PoolKit, fields: Fields): string | undefined {
  const reply = kit.trySubmit(`j${kit.log.length}`, { unrunnable: 'refuse', ...fields });
  if (!(reply instanceof OrchdError)) return undefined;
  assert.deepEqual([reply.code, reply.details.reason], ['ADMISSION_REJECT', 'no_backend']);
  return `${reply.details.field}: ${reply.message}`;
}

function withCommands(): PoolKit {
  const kit = new PoolKit();
  kit.backend('tools', { kind: 'command', types: ['resize', 'translate'], labels: { site: 'north' } });
  return kit;
}

test('a job that nothing could run is refused with the nearest name, and with those that there are', () => {
  const kit = withCommands();
  assert.equal(refusal(kit, { type: 'resize' }), undefined);
  assert.equal(
    refusal(kit, { type: 'resise' }),
    'type: nothing here runs the type "resise"; did you mean "resize"? Known here: resize, translate.',
  );
  assert.match(refusal(kit, { type: 'inference' }) ?? '', /^type: nothing here runs the type "inference"\./);
  assert.match(
    refusal(kit, { type: 'resize', backend: 'comand' }) ?? '',
    /^backend: .*did you mean "command"\?/,
  );
  assert.match(
    refusal(kit, { type: 'resize', labels: { site: 'south' } }) ?? '',
    /^labels: no backend that runs the type "resize" has these labels\.$/,
  );
  kit.backend('tiny', {
    kind: 'worker',
    types: ['inference'],
    models: ['tiny'],
    home: { pool: 'p', device: 0 },
  });
  assert.equal(
    refusal(kit, { type: 'resize', model: 'tiny' }),
    'model: no backend that runs the type "resize" has the model "tiny".',
  );
  assert.match(refusal(kit, { type: 'inference' }) ?? '', /^model: .* takes a job without a model\.$/);
  assert.equal(refusal(kit, { type: 'resize', labels: { site: 'north' } }), undefined);
});

test('an unknown model is answered with the nearest name', () => {
  const kit = withCommands();
  kit.model('tiny');
  const reply = kit.trySubmit('j', { type: 'inference', model: 'tinny' });
  assert.ok(reply instanceof OrchdError && reply.code === 'MODEL_NOT_FOUND');
  assert.match(reply.message, /there is no model "tinny"; did you mean "tiny"\?/);
});

test('what is only away counts: a backend that is down, and a pool that has not reported yet', () => {
  const kit = withCommands();
  kit.step({ type: 'reachable', name: 'tools', up: false });
  assert.equal(refusal(kit, { type: 'resize' }), undefined);
  kit.step({ type: 'pool-awaited', name: 'p', awaited: true });
  assert.equal(refusal(kit, { type: 'inference' }), undefined);
  assert.notEqual(refusal(kit, { type: 'inference', backend: 'command' }), undefined);
});

test('a model of the catalog can be run by a pool that is to come', () => {
  const kit = withCommands();
  kit.model('m');
  assert.equal(refusal(kit, { type: 'inference', model: 'm' }), undefined);
});

test('a job that says so waits, with a warning in its answer; a program that embeds orchd is not asked', () => {
  const kit = withCommands();
  const { status, warning } = kit.submit('waits', { type: 'resise', unrunnable: 'wait' });
  assert.equal(status, 'queued');
  assert.match(warning ?? '', /did you mean "resize"/);
  assert.equal(kit.submit('runs', { type: 'resize', unrunnable: 'wait' }).warning, undefined);
  assert.equal(kit.submit('embedded', { type: 'resise' }).warning, undefined);
});
