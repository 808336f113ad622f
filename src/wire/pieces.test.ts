import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { turns } from '../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { writeInPieces } from './pieces.ts';

const MIB = 2 ** 20;

/** A connection whose client takes a piece only when it is told to. */
class Connection extends Writable {
  readonly taken: Buffer[] = [];
  #take: (() => void) | undefined;

  constructor() {
    super({ highWaterMark: 1 });
  }

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.#take = () => {
      this.taken.push(piece);
      done();
    };
  }

  take(): void {
    this.#take?.();
    this.#take = undefined;
  }
}

test('content is written piece by piece as the client takes it, whole, and in the same characters', async () => {
  const { timers } = new VirtualEnv();
  const out = new Connection();
  const text = '🦊é'.repeat(100_000);
  const bytes = Buffer.alloc(MIB, 'x');
  let isDone = false;
  const writing = writeInPieces(out, ['{', text, bytes, '}'], timers).then(() => {
    isDone = true;
  });
  while (!isDone) {
    await turns(2);
    assert.ok(out.writableLength <= MIB / 2, `${out.writableLength} bytes are not sent`);
    out.take();
  }
  await writing;
  assert.equal(Buffer.concat(out.taken).toString(), `{${text}${bytes}}`);
  assert.ok(out.taken.length > 8);
});

test('pieces for many clients are written one in each turn', async () => {
  const { timers } = new VirtualEnv();
  let written = 0;
  const outs = Array.from({ length: 50 }, () => {
    const out = new Writable({ write: (_piece, _encoding, done) => done() });
    const write = out.write.bind(out);
    out.write = ((piece: Buffer) => {
      written++;
      return write(piece);
    }) as Writable['write'];
    return out;
  });
  const all = Promise.all(outs.map((out) => writeInPieces(out, [Buffer.alloc(MIB)], timers)));
  let isDone = false;
  void all.then(() => {
    isDone = true;
  });
  for (let before = 0; !isDone; before = written) {
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(written - before <= 2, `${written - before} in one turn`);
  }
  assert.equal(written, 200);
});

test('a client that does not take a piece for a minute is disconnected; one that takes them slowly is not', async () => {
  const env = new VirtualEnv();
  const out = new Connection();
  const writing = writeInPieces(out, [Buffer.alloc(MIB)], env.timers);
  for (let piece = 0; piece < 3; piece++) {
    await turns(4);
    await env.pass(50_000);
    assert.equal(out.destroyed, false);
    out.take();
  }
  await turns(4);
  await env.pass(70_000);
  await writing;
  assert.equal(out.destroyed, true);
});

test('a connection that closes ends the writing', async () => {
  const { timers } = new VirtualEnv();
  const out = new Connection();
  const writing = writeInPieces(out, [Buffer.alloc(MIB)], timers);
  await turns(4);
  out.destroy();
  await writing;
  await writeInPieces(out, [Buffer.alloc(MIB)], timers);
});
