/** The archive of sessions of a journal: a table in the file of its history, written in the background. */
import type { SessionArchive } from '../../../core/ports/sessions.ts';
import { OrchdError } from '../../../model/errors.ts';
import { isFull } from '../../disk-failure.ts';
import { sessionText } from '../../session-text.ts';
import type { Background } from '../background.ts';

/** `assertOpen` throws while this process does not hold the folder. */
export const journalArchive = (background: Background, assertOpen: () => unknown): SessionArchive => ({
  ...background.sessions,
  put: async (records) => {
    assertOpen();
    await written(background.archive(records.map((record) => `${sessionText(record)}\n`).join('')));
  },
  drop: async (sessions) => {
    assertOpen();
    await written(background.dropSessions(sessions));
  },
});

async function written(write: Promise<void>): Promise<void> {
  try {
    await write;
  } catch (error) {
    throw isFull(error) ? new OrchdError('STORE_FULL', undefined, {}, { cause: error }) : error;
  }
}
