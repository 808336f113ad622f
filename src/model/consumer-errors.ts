/** The errors of consumers, as a part of the catalogue in errors.ts. */
import { entry } from './error-entry.ts';

export const CONSUMER_ERRORS = {
  CONSUMER_GONE: entry(
    410,
    false,
    'No consumer is registered under this id: it has left, or was silent for too long.',
    'Register again, and stop the jobs of the former registration.',
  ),
  CONSUMER_CONFLICT: entry(
    409,
    false,
    'The consumer cannot be registered beside those that are there; `reason` says why.',
    'Use another name or another pool, or wait until the others have left.',
  ),
};
