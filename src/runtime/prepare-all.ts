/** Prepares many requests; one that is refused comes as an error in its place. */
import { newMeter } from '../kit/json-writer.ts';
import type { Sliced } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { type Caller, type Prepared, prepare, prepareInSlices } from './prepare.ts';

export function preparedNow(
  requests: readonly SubmitRequest[],
  caller: Caller,
  newId: () => string,
  maxTries: number,
): readonly (Prepared | OrchdError)[] {
  return requests.map((each) => {
    try {
      return prepare(each, caller, newId, maxTries);
    } catch (error) {
      return error instanceof OrchdError ? error : unreadable(error);
    }
  });
}

/** A request of an embedding program is made of its own objects, whose getters may throw. */
const unreadable = (error: unknown): OrchdError =>
  new OrchdError('INVALID_PARAMS', 'the request cannot be read', {}, { cause: error });

/** The same in slices, for requests that were parsed from a large JSON text. */
export function* preparedInSlices(
  requests: readonly SubmitRequest[],
  caller: Caller,
  newId: () => string,
  maxTries: number,
): Sliced<readonly (Prepared | OrchdError)[]> {
  const prepared: (Prepared | OrchdError)[] = [];
  const meter = newMeter();
  for (const each of requests) {
    try {
      prepared.push(yield* prepareInSlices(each, caller, newId, maxTries, meter));
    } catch (error) {
      if (!(error instanceof OrchdError)) throw error;
      prepared.push(error);
    }
  }
  return prepared;
}
