/** Sessions as a table for people. */
import type { SessionSummary } from '../../model/http/session-lists.ts';
import { instantText } from './duration.ts';
import { oneLine } from './screen.ts';
import { tableText } from './table.ts';

export const sessionTable = (list: readonly SessionSummary[]): string =>
  tableText(
    ['SESSION', 'LAST USED', 'MESSAGES', 'TOKENS', 'LIVE JOBS'],
    list.map(({ session_id: id, used_at: used, messages, tokens_used: tokens, live_jobs: live }) => [
      oneLine(id),
      instantText(used),
      String(messages),
      String(tokens),
      String(live),
    ]),
  );
