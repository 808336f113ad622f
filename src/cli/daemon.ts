/** What the commands that run until they are stopped have in common. */
import { LineOutput } from '../kit/env/line-output.ts';
import { createLogger, type Logger, type LogLevel } from '../kit/logger.ts';
import { logText } from './text/log-text.ts';

const STDOUT = 1;
const LINGER_MS = 250;
/** For a reader of the log that is slow. */
const LAST_MS = 5000;

const log = new LineOutput(STDOUT);

/** Their log goes to standard output, for programs as JSON; nothing of it is lost at the end. */
export function daemonLogger(level?: LogLevel): Logger {
  const forPerson = process.stdout.isTTY === true;
  process.once('exit', () => log.flushNow());
  return createLogger({
    write: (line) => log.write(forPerson ? logText(line) : line),
    now: () => Date.now(),
    ...(level && { level }),
  });
}

/** Whatever a part has left behind must not keep the process alive: an idle one ends before this. The log goes first. */
export function ended(code: number): number {
  const exit = (): void => process.exit(code);
  setTimeout(() => void log.flush().then(exit), LINGER_MS).unref();
  setTimeout(exit, LAST_MS).unref();
  return code;
}
