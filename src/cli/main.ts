#!/usr/bin/env node
/** The `orchd` command. */
import { EXIT } from './command.ts';
import { run } from './run.ts';
import { terminalOf } from './terminal.ts';

const terminal = terminalOf(process.stdout, process.stderr, process.env['NO_COLOR'] !== undefined);

// The reader of standard output may stop early, as `head` does: that is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.unusable);
});
process.on('uncaughtException', (error) => {
  terminal.complain(`orchd: ${error.message}`);
  process.exit(EXIT.unusable);
});

process.exitCode = await run(process.argv.slice(2), terminal);
