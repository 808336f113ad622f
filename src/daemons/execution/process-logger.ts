/** The logger of an executor's process: JSON lines on standard output, at the level of ORCHD_LOG_LEVEL. */
import type { Env } from '../../kit/env/env.ts';
import { createLogger, LOG_LEVELS, type Logger } from '../../kit/logger.ts';

export const processLogger = ({ clock }: Pick<Env, 'clock'>): Logger =>
  createLogger({
    write: (line) => {
      process.stdout.write(line);
    },
    now: () => clock.now(),
    level: LOG_LEVELS.find((level) => level === process.env['ORCHD_LOG_LEVEL']) ?? 'info',
  });
