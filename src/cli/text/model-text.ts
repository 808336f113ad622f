/** Rows about models for the tables of `orchd models` and `orchd status`. */
import type { StatusModel } from '../../model/http/status.ts';

/** Name, state, workers, slots and waiting jobs; callers of other tenants are not told what is in use. */
export const modelRows = (models: readonly StatusModel[]): string[][] =>
  models.map(({ name, state, workers, slots, used, waiting }) => [
    name,
    state,
    `${workers}`,
    used === undefined ? `${slots}` : `${used} of ${slots}`,
    waiting === undefined ? '-' : `${waiting}`,
  ]);

/** The same with the context, and with where the model comes from in the last column. */
export const detailedRows = (models: readonly StatusModel[]): string[][] =>
  modelRows(models).map((row, at) => {
    const { context_length } = models[at] as StatusModel;
    const [name = '', state = '', ...numbers] = row;
    const context = context_length === null ? '-' : `${context_length}`;
    return [name, state, context, ...numbers, originOf(models[at] as StatusModel)];
  });

function originOf({ model_ref, source, upstreams, problem }: StatusModel): string {
  if (problem !== undefined) return problem;
  if (upstreams !== undefined) return upstreams.map((name) => `"${name}"`).join(', ');
  return model_ref ?? `a ${source} offers it`;
}
