/** Programs in the place of bubblewrap that misbehave, and the real one where it works on this machine. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { needDebian } from '../../../../test/fakes/debian.ts';
import type { Sandbox } from './sandbox.ts';
import { probeSandbox } from './sandbox-probe.ts';

/** The verdict with this script as the only `bwrap`; without a script there is none. */
async function verdict(t: TestContext, script?: string): Promise<Sandbox> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-probe-'));
  const path = process.env['PATH'];
  t.after(() => {
    process.env['PATH'] = path;
    fs.rmSync(folder, { recursive: true });
  });
  if (script !== undefined)
    fs.writeFileSync(join(folder, 'bwrap'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  process.env['PATH'] = script === undefined ? folder : [folder, '/usr/bin', '/bin'].join(delimiter);
  return probeSandbox(folder);
}

test('without bubblewrap, or with one that does not work, commands are not confined, and it says why', async (t) => {
  for (const [script, why] of [
    [undefined, /not installed: it is in the package bubblewrap/],
    ['echo "bwrap: No permissions to create a new namespace" >&2; exit 1', /No permissions to create a new/],
    ['exit 0', /it said nothing/],
    // Confines nothing: it runs what comes behind its own words.
    ['while [ "$1" != -- ]; do shift; done; shift; exec "$@"', /sees the (processes|network)/],
    ['kill -9 $$', /does not work here/],
  ] as const) {
    const sandbox = await verdict(t, script);
    assert.equal(sandbox.works, false, script ?? 'none');
    assert.match(sandbox.works ? '' : sandbox.why, why);
  }
});

test('with bubblewrap they are, unless the machine forbids it', async () => {
  await needDebian('bubblewrap', 'bwrap');
  const sandbox = await probeSandbox(tmpdir());
  assert.ok(sandbox.works || /^bwrap does not work here: /.test(sandbox.why));
});
