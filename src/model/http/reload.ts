/** The schemas of a reload of the configuration. */
import { Type } from 'typebox';
import { answerObject, instant, type Shape } from './shape.ts';

const optional = Type.Optional;

/** The lists of the configuration that can change while the server runs. */
export const RELOAD_SECTIONS = ['gateway.seats', 'backends.gateways', 'modules', 'schedules'] as const;
export type ReloadSection = (typeof RELOAD_SECTIONS)[number];

const Names = (description: string) => Type.Array(Type.String(), { description });

const SectionChanges = answerObject('SectionChanges', {
  section: Type.Enum([...RELOAD_SECTIONS], { description: 'The list in the configuration' }),
  added: Names('Names of what is new'),
  changed: Names('Names of what has other settings; of a seat also another key'),
  removed: Names('Names of what is gone; jobs that run on a seat or at a gateway end there first'),
});
export type SectionChanges = Shape<typeof SectionChanges>;

const ReloadRefusal = answerObject('ReloadRefusal', {
  code: Type.String({ description: 'An error code' }),
  message: Type.String(),
  field: optional(Type.String({ description: 'The key of the configuration' })),
  position: optional(Type.String({ description: 'Where it stands, such as config.yaml:3:5' })),
});

export const ReloadReport = answerObject('ReloadReport', {
  at: instant('When the configuration was read'),
  by: Type.String({ description: 'Who ordered it: the name of a token, or SIGHUP' }),
  outcome: Type.Enum(['applied', 'unchanged', 'refused'], {
    description:
      '`applied`: what changes below is in force; `unchanged`: there was nothing to change while it runs; `refused`: something is wrong, and nothing has changed',
  }),
  leads: Type.Boolean({
    description: 'Whether this node leads; one that does not uses what has changed once it leads',
  }),
  changes: Type.Array(SectionChanges, { description: 'The sections in which something has changed' }),
  restart_needed: Names('Settings that differ from those in use, and take effect at the next start'),
  error: optional(ReloadRefusal),
});
export type ReloadReport = Shape<typeof ReloadReport>;

export const ReloadReports = answerObject('ReloadReports', {
  reports: Type.Array(ReloadReport, { description: 'The last ones, the latest first' }),
});
