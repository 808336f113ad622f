/**
 * Loaded into the process of every test file, before it. Once the tests of the file are over, its process has to
 * clean up and end by itself: a timer, socket, server or child that is left open is a leak, of the test or of the
 * product. A process that goes on for EXIT_TIMEOUT_MS fails its file, and says what keeps it alive.
 */
import { relative } from 'node:path';
import { after } from 'node:test';
import { isMainThread } from 'node:worker_threads';

/** Clean-up in `after` hooks counts, and takes seconds where many tests share the processor. */
const EXIT_TIMEOUT_MS = 60_000;

/** Standard output and error are pipes to the test runner, and keep no process alive. */
const PIPES_TO_RUNNER = 2;

function fail(): void {
  let pipes = 0;
  const open = process
    .getActiveResourcesInfo()
    .filter((name) => name !== 'PipeWrap' || ++pipes > PIPES_TO_RUNNER);
  const file = relative(process.cwd(), process.argv[1] ?? '');
  console.error(
    `${file}: still running ${EXIT_TIMEOUT_MS / 1000} s after its tests; open: ${open.join(', ')}`,
  );
  process.exit(1);
}

// Worker threads and forked children of a test file inherit this preload, and have no tests of their own.
if (isMainThread && process.argv[1]?.endsWith('.test.ts')) {
  after(() => {
    setTimeout(fail, EXIT_TIMEOUT_MS).unref();
  });
}
