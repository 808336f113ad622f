/** The output of `orchd modules`. */
import type { ModuleView } from '../../model/http/modules.ts';
import { durationText } from './duration.ts';
import { tableText } from './table.ts';

const HEADINGS = ['MODULE', 'STATE', 'NEXT', 'ACCEPTED', 'KNOWN', 'REFUSED', 'HANDLED', 'PROBLEM'];

export const modulesText = (list: readonly ModuleView[], width: number | undefined, now: number): string =>
  tableText(
    HEADINGS,
    list.map((each) => rowOf(each, now)),
    { width },
  );

function rowOf(module: ModuleView, now: number): string[] {
  const { name, state, next_scan_at: next, proposals, handled, last_error, handle_error } = module;
  return [
    name,
    state,
    next === undefined ? '-' : `in ${durationText(next - now)}`,
    String(proposals.accepted),
    String(proposals.known),
    String(proposals.refused + proposals.garbage),
    String(handled),
    [last_error, handle_error].filter((text) => text !== undefined).join('; ') || '-',
  ];
}
