/** What contradicts itself in the section `gates`. */
import { gatesFault, gatesInForce } from '../model/policy.ts';
import { gatesOf, type WrittenGates } from './gates.ts';
import type { Issue } from './issues.ts';

export function gatesIssues(written: WrittenGates): Issue[] {
  const fault = gatesFault(gatesInForce(gatesOf(written)));
  return fault ? [{ path: ['gates', ...fault.field.split('.')], message: fault.message, at: 'value' }] : [];
}
