/** Finds jobs that nothing here could ever run: without this check they would wait for ever, mostly for a misspelt name. */
import { didYouMean } from '../../kit/nearest.ts';
import { fits } from '../queue/fits.ts';
import { type Need, needOf } from '../queue/lane.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

/** Maximum number of names in a message. */
const MAX_NAMED = 10;

/** The field of the request that nothing here fits, and why. Not an error yet: errors take long to make. */
export interface Unrunnable {
  readonly field: string;
  readonly message: string;
}

/** Why nothing here could run the job; undefined if something could, also something that is not there at the moment. */
export function whyUnrunnable(turn: Turn, submission: Submission): Unrunnable | undefined {
  const need = needOf(submission);
  for (const { info } of turn.fleet.backends.values()) if (fits(need, info)) return undefined;
  return poolMayRun(turn, submission) ? undefined : explained(turn, need);
}

function explained(turn: Turn, need: Need): Unrunnable {
  const { type, kind, labels } = need;
  const infos = [...turn.fleet.backends.values()].map(({ info }) => info);
  const types = namesOf(infos.map((info) => info.types ?? []));
  if (!types.includes(type) && infos.every((info) => info.types !== undefined))
    return refusal('type', `nothing here runs the type "${type}"`, type, types);
  const kinds = namesOf(infos.map((info) => [info.kind]));
  if (kind !== undefined && !kinds.includes(kind))
    return refusal('backend', `there is no backend of the kind "${kind}"`, kind, kinds);
  const runs = `no backend that runs the type "${type}"`;
  const hasOtherLabels = labels && infos.some((info) => fits({ ...need, labels: undefined }, info));
  if (hasOtherLabels) return refusal('labels', `${runs} has these labels`, '', []);
  const { model } = need;
  if (model !== undefined) return refusal('model', `${runs} has the model "${model}"`, '', []);
  const models = namesOf(infos.map((info) => (info.hasForeignModels ? (info.models ?? []) : [])));
  const advice = models.length === 0 ? '' : ': name one with "model", or --model';
  return refusal('model', `${runs} takes a job without a model${advice}`, '', models);
}

/** A pool can start a worker for any model of the catalog, and other pools may register later. */
function poolMayRun({ state }: Turn, { spec, modelRef }: Submission): boolean {
  if (spec.type !== 'inference' || (spec.backend !== undefined && spec.backend !== 'worker')) return false;
  return modelRef !== undefined || state.pools.known.size > 0 || state.pools.awaited.size > 0;
}

const namesOf = (lists: readonly (readonly string[])[]): string[] => [...new Set(lists.flat())].sort();

function refusal(field: string, what: string, name: string, known: readonly string[]): Unrunnable {
  const hint = name === '' ? '' : didYouMean(name, known);
  const more = known.length > MAX_NAMED ? ` and ${known.length - MAX_NAMED} more` : '';
  const there = known.length === 0 ? '' : ` Known here: ${known.slice(0, MAX_NAMED).join(', ')}${more}.`;
  return { field, message: `${what}${hint || '.'}${there}` };
}
