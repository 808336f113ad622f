/** Shared by the commands that run until they are stopped: their log, and their end. */
import { LineOutput } from '../kit/env/line-output.ts';
import { createLogger, type Logger, type LogLevel } from '../kit/logger.ts';
import { logText } from './text/log-text.ts';
import { harmless, harmlessJson } from './text/screen.ts';

const STDOUT = 1;
const LINGER_MS = 250;
/** How long a slow reader of the log has to take its rest. */
const LAST_MS = 5000;

const log = new LineOutput(STDOUT);

/**
 * A logger to standard output: text on a terminal, else JSON lines, which people may look at later. What is buffered at
 * the end is still written.
 */
export function daemonLogger(level?: LogLevel): Logger {
  const forPerson = process.stdout.isTTY === true;
  process.once('exit', () => log.flushNow());
  return createLogger({
    write: (line) => log.write(forPerson ? harmless(logText(line)) : harmlessJson(line)),
    now: () => Date.now(),
    ...(level && { level }),
  });
}

/** Ends the process after the log is written, even if a timer or a socket that was left open would keep it alive. */
export function ended(code: number): number {
  const exit = (): void => process.exit(code);
  setTimeout(() => void log.flush().then(exit), LINGER_MS).unref();
  setTimeout(exit, LAST_MS).unref();
  return code;
}
