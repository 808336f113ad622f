/** The error for an answer that is not in the form of its API. */
import { OrchdError } from '../../model/errors.ts';

export const protocolError = (what: string, reason?: 'connection_lost'): OrchdError =>
  new OrchdError('WORKER_PROTOCOL', `the upstream ${what}`, reason === undefined ? {} : { reason });
