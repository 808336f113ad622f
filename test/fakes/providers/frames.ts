/** Plays the events of a stream, with the faults and hold points of the stage. */
import type { ServerResponse } from 'node:http';
import type { Fault, FaultName, Stage } from './stage.ts';

/** One event of a stream. `mark` says what it is, for faults that happen before or after it. */
export interface Frame {
  readonly text: string;
  readonly mark?: 'output' | 'usage' | undefined;
}

export interface Play {
  readonly response: ServerResponse;
  readonly frames: readonly Frame[];
  readonly stage: Stage;
  readonly fault: Fault | undefined;
  /** The generation goes on when its connection has ended. */
  readonly goesOn?: boolean;
  /** Settles when the generation is cancelled. */
  readonly cancelled?: Promise<unknown>;
}

/** Returns whether the generation came to its end. */
export async function play(what: Play): Promise<boolean> {
  const { response, stage, fault, goesOn = false, cancelled } = what;
  const frames = arranged(what.frames, fault?.name);
  const cutAfter = cutOf(frames, fault?.name);
  let isCancelled = false;
  void cancelled?.then(() => {
    isCancelled = true;
  });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  await stage.at('after-head', cancelled);
  for (const [at, { text }] of frames.entries()) {
    if (at === frames.length - 1) await stage.at('before-end', cancelled);
    if (isCancelled || (response.destroyed && !goesOn)) {
      response.end();
      return false;
    }
    if (!response.destroyed) await write(response, text);
    if (at === 0) await stage.at('first-event', cancelled);
    if (at !== cutAfter) continue;
    if (fault?.name === 'hang_mid') await (cancelled ?? new Promise(() => undefined));
    else if (fault?.name === 'end_mid') response.end();
    else response.destroy();
    if (!goesOn) return false;
  }
  response.end();
  return true;
}

const write = (response: ServerResponse, text: string): Promise<void> =>
  new Promise((resolve) => {
    // The callback of a write comes also when the connection ends.
    response.write(text, () => resolve());
  });

function arranged(frames: readonly Frame[], fault: FaultName | undefined): Frame[] {
  if (fault === 'doubled') return frames.flatMap((frame) => [frame, frame]);
  const outputs = frames.flatMap(({ mark }, at) => (mark === 'output' ? [at] : []));
  const [first, second] = outputs;
  const all = [...frames];
  if (fault === 'garbage' && first !== undefined)
    all.splice(first + 1, 0, { text: 'data: {"broken": [\n\n' });
  if (fault === 'disordered' && first !== undefined && second !== undefined)
    [all[first], all[second]] = [frames[second] as Frame, frames[first] as Frame];
  return all;
}

/** The frame after which the connection ends or falls silent; -1 if it does neither. */
function cutOf(frames: readonly Frame[], fault: FaultName | undefined): number {
  const marks = frames.map(({ mark }) => mark);
  if (fault === 'cut_mid' || fault === 'end_mid' || fault === 'hang_mid') return marks.indexOf('output');
  if (fault === 'cut_before_usage') return marks.indexOf('usage') - 1;
  if (fault === 'cut_after_usage') return marks.lastIndexOf('usage');
  return -1;
}
