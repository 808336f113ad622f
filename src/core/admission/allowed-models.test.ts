import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';

/** Undefined if the job was admitted. */
function refusalOf(
  kit: EngineKit,
  id: string,
  model: string | undefined,
  allowedModels?: readonly string[],
): string | undefined {
  const named = model === undefined ? {} : { model };
  const answer = kit.trySubmit(id, { type: 'inference', ...named, allowedModels });
  return answer instanceof OrchdError ? `${answer.code} ${answer.details.reason}` : undefined;
}

const FORBIDDEN = 'FORBIDDEN model_not_allowed';

test('a model may be listed by its id or by the name that the caller uses, and the only model is no exception', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('large', { aliases: ['fast'] });
  const by = (name: string | undefined, list: readonly string[]) =>
    refusalOf(kit, `${name}-${list}`, name, list);
  assert.equal(by('large', ['large']), undefined);
  assert.equal(by('fast', ['fast']), undefined);
  assert.equal(by('fast', ['large']), undefined, 'it is that model');
  assert.equal(by('file:/models/large.gguf', ['lar*']), undefined, 'its reference too');
  assert.equal(by(undefined, ['large']), undefined, 'the only model is taken');
  assert.equal(by('large', ['fast']), FORBIDDEN);
  assert.equal(by('fast', ['small']), FORBIDDEN);
  assert.equal(by(undefined, ['small']), FORBIDDEN);
  assert.equal(by('nowhere', ['small']), FORBIDDEN);
});

test('a route may be used by its name, or if every model of it may be used', () => {
  const kit = new EngineKit();
  for (const model of ['a', 'b'])
    kit.backend(`seat-${model}`, { models: [model], hasForeignModels: true, slots: 9 });
  const steps = ['a', 'b'].map((model) => ({ model, on: ['error'] as const }));
  kit.step({ type: 'route', id: 'route', steps, by: 'test' });
  const by = (...list: string[]) => refusalOf(kit, `by ${list}`.replaceAll(/[^\w]/g, '-'), 'route', list);
  assert.equal(by('route'), undefined);
  assert.equal(by('rou*'), undefined);
  assert.equal(by('a', 'b'), undefined);
  assert.equal(by('a'), FORBIDDEN, 'a failure would bring it to b');
  assert.equal(by(), FORBIDDEN);
  assert.equal(
    refusalOf(kit, 'step', 'a', ['route']),
    FORBIDDEN,
    'the name of a route is not that of its models',
  );
});
