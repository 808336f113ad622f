/** The list of stores can be read without a driver, and says which stores several nodes can share. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { loadConfig } from '../config/load.ts';
import { PLACE_FORMS } from './place-forms.ts';
import { configuredStore, STORES } from './registry.ts';

test('the list loads where no driver is installed', () => {
  const script = `
    import { registerHooks } from 'node:module';
    registerHooks({
      resolve(name, context, next) {
        if (name === 'mariadb') throw new Error('not installed');
        return next(name, context);
      },
    });
    const { STORES } = await import(${JSON.stringify(new URL('./registry.ts', import.meta.url).href)});
    console.log(Object.keys(STORES).join());
  `;
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
  });
  assert.equal(output.trim(), Object.keys(STORES).join());
});

test('every store that work can be moved to has a form of its places, and no other', () => {
  const movable = Object.entries(STORES).filter(([, { migration }]) => migration);
  assert.deepEqual(
    Object.fromEntries(movable.map(([name, { migration }]) => [name, migration?.form])),
    Object.fromEntries(Object.entries(PLACE_FORMS).map(([name, { form }]) => [name, form])),
  );
});

test('only a store with a leadership makes a server one node of several', () => {
  assert.equal(configuredStore(loadConfig({})).leadership, undefined);
  assert.ok(configuredStore(loadConfig({ text: 'store: mariadb' })).leadership);
});
