/** Schemas of the HTTP answers about modules (/v2/modules). */
import { Type } from 'typebox';
import { answerObject, instant, type Shape } from './shape.ts';

const optional = Type.Optional;
const count = (description: string) => Type.Integer({ description });

const STATE_MEANING = {
  idle: 'the last scan went well, and the next one comes in time',
  scanning: 'a scan runs',
  failing: 'the last scan failed; the next one comes after a pause that grows with each failure',
  waiting: 'the last scan was ended because the queue was full; the next one proposes the rest again',
};

const PROPOSAL_COUNTS = {
  accepted: count('Proposals that became jobs'),
  known: count('Proposals of work that has a job already, live or ended'),
  refused: count('Proposals that were refused'),
  postponed: count('Proposals that the brain could not take at that time'),
  garbage: count('Lines of output that are no JSON object'),
};

const ModuleScan = answerObject('ModuleScan', {
  started_at: instant('When it was started'),
  ended_at: optional(instant('When it ended')),
  ...PROPOSAL_COUNTS,
  is_cut: Type.Boolean({ description: 'Whether it was ended before its last proposal' }),
});

export const ModuleView = answerObject('Module', {
  name: Type.String(),
  kind: Type.Union([Type.Literal('file'), Type.Literal('command')]),
  state: Type.Unsafe<keyof typeof STATE_MEANING>({
    type: 'string',
    enum: Object.keys(STATE_MEANING),
    description: Object.entries(STATE_MEANING)
      .map(([name, meaning]) => `- ${name}: ${meaning}`)
      .join('\n'),
  }),
  scans: count('Scans that have ended since this brain started'),
  failures: count('Failed scans in a row'),
  proposals: answerObject('ModuleProposals', PROPOSAL_COUNTS),
  last_scan: optional(ModuleScan),
  next_scan_at: optional(instant('When the next scan starts; absent while one runs')),
  last_error: optional(
    Type.String({ description: 'What was wrong with the last scan, or its first bad line' }),
  ),
  last_error_code: optional(Type.String({ description: 'The code of `last_error`, see docs/errors.md' })),
  handled: count('Ends of jobs that were handled since this brain started'),
  pending: count('Ends of jobs that wait to be handled'),
  handle_error: optional(Type.String({ description: 'Why the end of a job could not be handled' })),
  handle_error_code: optional(Type.String({ description: 'The code of `handle_error`, see docs/errors.md' })),
});
export type ModuleView = Shape<typeof ModuleView>;

export const ModuleList = answerObject('Modules', { modules: Type.Array(ModuleView) });
