/** The descriptor of the journal: its options from the configuration, and the syntax of its location. */
import { resolve } from 'node:path';
import type { StoreDescriptor } from '../descriptor.ts';
import { PLACE_FORMS } from '../place-forms.ts';
import { JournalStore } from './journal.ts';
import { paths } from './layout.ts';
import { journalPlace } from './migration/place.ts';
import { ThreadBackground } from './thread.ts';

const PREFIX = 'journal:';

export const journal: StoreDescriptor = {
  title: 'the journal',
  open: ({ env, config, folder, logger, isCopy }) =>
    new JournalStore(env, {
      folder: resolve(folder),
      isCopy,
      checkpointIntervalMs: config.state.checkpointIntervalMs,
      historyMs: config.retention.historyMs,
      auditMs: config.retention.auditMs,
      auditBytes: config.retention.auditBytes,
      background: (where) => new ThreadBackground(where, env.timers),
      onWarning: (message, fields) =>
        logger?.warn('the data folder needs attention', { reason: message, ...fields }),
    }),
  parts: (folder) => {
    const { log, parts, blobs, keys, history } = paths(resolve(folder));
    // The rows that SQLite has not moved into the file itself yet are beside it.
    return {
      log: [log],
      checkpoints: [parts],
      blobs: [blobs],
      keys: [keys],
      history: [history, `${history}-wal`],
    };
  },
  migration: {
    form: PLACE_FORMS.journal.form,
    place: (text, { data }) => {
      if (text === 'journal') return journalPlace(resolve(data));
      if (!text.startsWith(PREFIX) || text === PREFIX) return undefined;
      return journalPlace(resolve(text.slice(PREFIX.length)));
    },
  },
};
