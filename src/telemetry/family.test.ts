import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { counter, gauge, single } from './family.ts';

test('samples are read for every scrape, and an unknown value is not told as 0', async () => {
  const registry = new Registry();
  let free: number | undefined;
  gauge({ name: 'free', help: 'Free', registry, samples: () => single(free) });
  counter({ name: 'ends', help: 'Ends', registry, samples: async () => [[{ state: 'a"b' }, 2]] });
  const ends = '# HELP ends Ends\n# TYPE ends counter\nends{state="a\\"b"} 2\n';
  assert.equal(
    (await registry.metrics()).trimEnd(),
    `# HELP free Free\n# TYPE free gauge\n\n${ends}`.trimEnd(),
  );
  free = 5;
  const text = `# HELP free Free\n# TYPE free gauge\nfree 5\n\n${ends}`;
  assert.equal((await registry.metrics()).trimEnd(), text.trimEnd());
});
