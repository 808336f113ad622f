/** Events that the rules of order speak of, in the order they happened; read from a recorded run or from strace. */
import type { LedgerLine } from './ledger.ts';
import type { Ack } from './script.ts';
import type { Operation } from './watched-disk.ts';

/** Paths are relative to the data folder. A sync stands where it returned, everything else where it began. */
export type TraceEvent =
  /** A brain begins on the folder. */
  | { readonly is: 'begin' }
  | { readonly is: 'create' | 'remove' | 'sync' | 'sync-folder'; readonly path: string }
  | {
      readonly is: 'write';
      readonly path: string;
      readonly position: number;
      readonly bytes: number;
      readonly text: string;
    }
  | { readonly is: 'rename'; readonly from: string; readonly to: string }
  /** The executor was told to start it. */
  | { readonly is: 'start'; readonly token: string }
  /** The executor was told that it may drop the result. */
  | { readonly is: 'release'; readonly token: string }
  /** The client was told; `record` is what the log must hold for it to be true. */
  | { readonly is: 'ack'; readonly what: string; readonly record: RegExp };

/** Acknowledgements that promise something about a job. */
export function ackEvent(ack: Ack): TraceEvent | undefined {
  switch (ack.did) {
    case 'submit':
      if (ack.refused !== undefined) return undefined;
      return { is: 'ack', what: `submit ${ack.label}`, record: recordOf('ask', ack.id, '') };
    case 'wait':
    case 'cancel':
    case 'redrive': {
      const { id, state } = ack.job;
      const wanted = { wait: `"state":"${state}"`, cancel: '"cancel":', redrive: '{"is":"redrive"' }[ack.did];
      return { is: 'ack', what: `${ack.did} ${ack.label}`, record: recordOf('job', id, wanted) };
    }
    default:
      return undefined;
  }
}

/** A change within a frame: one line of its text. */
export const recordOf = (kind: string, id: string, wanted: string): RegExp =>
  new RegExp(`"${kind}","${id}",[^\\n]*${wanted}`);

export function ledgerEvent(line: LedgerLine): TraceEvent | undefined {
  if (line.is === 'start' || line.is === 'busy') return { is: 'start', token: line.token };
  return line.is === 'ack' ? { is: 'release', token: line.token } : undefined;
}

/** An operation before it is made. */
export function operationEvent({ kind, path, write }: Operation): TraceEvent | undefined {
  switch (kind) {
    case 'lock':
      return { is: 'begin' };
    case 'open-create':
      return { is: 'create', path };
    case 'remove':
      return { is: 'remove', path };
    case 'rename': {
      const [from = '', to = ''] = path.split(' ');
      return { is: 'rename', from, to };
    }
    case 'write':
      return write && { is: 'write', path, ...contentOf(write) };
    default:
      return undefined;
  }
}

/** And after it has succeeded. */
export function doneEvent({ kind, path }: Operation): TraceEvent | undefined {
  if (kind === 'datasync') return { is: 'sync', path };
  return kind === 'syncFolder' ? { is: 'sync-folder', path } : undefined;
}

function contentOf({ position, data }: NonNullable<Operation['write']>) {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1');
  return { position, bytes: data.length, text };
}
