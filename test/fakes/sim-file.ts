/** A file of a simulated disk: what is on the platter, and what the system holds on top of it. */

const SECTOR = 512;

export type FileOp =
  | { readonly is: 'write'; readonly at: number; readonly data: Buffer }
  | { readonly is: 'truncate'; readonly size: number };

/** Chooses what a power cut leaves of the things that were not synced. */
export type Chance = (probability: number) => boolean;

export class SimFile {
  readonly isFolder = false;
  readonly id: number;
  modifiedMs: number;
  platter: Buffer = Buffer.alloc(0);
  content: Buffer = Buffer.alloc(0);
  pending: FileOp[] = [];

  constructor(id: number, now: number) {
    this.id = id;
    this.modifiedMs = now;
  }

  apply(op: FileOp, now: number): void {
    this.content = applyOp(this.content, op);
    this.pending.push(op);
    this.modifiedMs = now;
  }

  /** Everything up to the n-th pending operation reaches the platter. */
  settle(count: number): void {
    for (const op of this.pending.splice(0, count)) this.platter = applyOp(this.platter, op);
  }

  cutPower(chance: Chance): void {
    for (const op of this.pending) {
      for (const piece of piecesOf(op)) if (chance(0.5)) this.platter = applyOp(this.platter, piece);
    }
    this.pending = [];
    this.content = Buffer.from(this.platter);
  }
}

function applyOp(content: Buffer, op: FileOp): Buffer {
  if (op.is === 'truncate') {
    if (op.size <= content.length) return content.subarray(0, op.size);
    return Buffer.concat([content, Buffer.alloc(op.size - content.length)]);
  }
  const end = op.at + op.data.length;
  const grown =
    end > content.length
      ? Buffer.concat([content, Buffer.alloc(end - content.length)])
      : Buffer.from(content);
  op.data.copy(grown, op.at);
  return grown;
}

function* piecesOf(op: FileOp): Generator<FileOp> {
  if (op.is === 'truncate') {
    yield op;
    return;
  }
  for (let from = 0; from < op.data.length; ) {
    const to = Math.min(op.data.length, from + SECTOR - ((op.at + from) % SECTOR));
    yield { is: 'write', at: op.at + from, data: op.data.subarray(from, to) };
    from = to;
  }
}
