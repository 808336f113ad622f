/**
 * Loaded into the process of every test file, before it. Once the tests of the file are over, its process has to
 * end by itself: a timer, socket, server or child that is left open is a leak, of the test or of the product.
 * A process that goes on for EXIT_TIMEOUT_MS fails its file, and says what keeps it alive.
 */
import { relative } from 'node:path';
import { after } from 'node:test';
import { isMainThread } from 'node:worker_threads';

const EXIT_TIMEOUT_MS = 10_000;

/** The pipes to the test runner stay open in every process, and keep none alive. */
const ALWAYS_OPEN = 'PipeWrap';

function fail(): void {
  const open = process.getActiveResourcesInfo().filter((name) => name !== ALWAYS_OPEN);
  const file = relative(process.cwd(), process.argv[1] ?? '');
  const kept = open.length === 0 ? 'a pipe' : open.join(', ');
  console.error(`${file}: still running ${EXIT_TIMEOUT_MS / 1000} s after its tests; open: ${kept}`);
  process.exit(1);
}

// Worker threads and forked children of a test file inherit this preload, and have no tests of their own.
if (isMainThread && process.argv[1]?.endsWith('.test.ts')) {
  after(() => {
    setTimeout(fail, EXIT_TIMEOUT_MS).unref();
  });
}
