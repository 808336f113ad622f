/** A job with its bodies as JSON text: bodies are stored and sent as text, and are not parsed in between. */
import type { HeldBytes, LargeValue } from '../kit/held-bytes.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { LargeJson } from '../wire/route.ts';
import { unlessErased } from './seals.ts';

/** The JSON text of a body, or a large one. */
export type BodyText = string | LargeValue;

export interface JobWithResult {
  /** The job without its bodies. */
  readonly job: JobView;
  readonly result: BodyText | undefined;
  /** The session of the job was deleted: nothing that was said in it may be read. */
  readonly isErased?: boolean;
}

/** `payload` is undefined where it is not to be shown. */
export interface JobWithBodies extends JobWithResult {
  readonly payload: BodyText | undefined;
}

/** Adds a member, whose value is JSON text, to the JSON text of an object; without a value the text stays the same. */
export function withMember(object: string, name: string, value: string | undefined): string {
  return value === undefined ? object : `${beforeMember(object, name)}${value}}`;
}

/** The JSON text of an object up to the value of a further member; behind the value, `}` is missing. */
export function beforeMember(object: string, name: string): string {
  const separator = object === '{}' ? '' : ',';
  return `${object.slice(0, -1)}${separator}${JSON.stringify(name)}:`;
}

export async function jobText(
  { job, payload, result }: JobWithBodies,
  when: 'now' | 'later',
): Promise<string | LargeJson> {
  /** What comes after the pieces. */
  let text = JSON.stringify(job);
  const pieces: Buffer[] = [];
  const held: HeldBytes[] = [];
  const release = (): void => {
    for (const each of held) each.release();
  };
  try {
    for (const [name, body] of Object.entries({ payload, result })) {
      if (body === undefined) continue;
      if (typeof body === 'string') {
        text = `${beforeMember(text, name)}${body}}`;
        continue;
      }
      const opened = await unlessErased(body.open(when));
      if (!opened) continue;
      held.push(opened);
      pieces.push(Buffer.from(beforeMember(text, name)), opened.bytes);
      text = '}';
    }
  } catch (error) {
    release();
    throw error;
  }
  return pieces.length === 0 ? text : { pieces: [...pieces, Buffer.from(text)], release };
}
