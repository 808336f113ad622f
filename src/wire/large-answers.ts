/** Sends answers that are too large for one turn of the event loop, as their clients read them. */
import type { ByteRoom } from '../kit/byte-room.ts';
import type { Timers } from '../kit/env/env.ts';
import { ONE_TURN_BYTES } from '../kit/slices.ts';
import { writeInPieces } from './pieces.ts';
import { type Content, contentBytes, type HttpExchange, writeHead } from './respond.ts';
import type { Answer, LargeJson } from './route.ts';

export const isLarge = (content: Content): content is Exclude<Content, undefined> => {
  if (content === undefined) return false;
  return isShared(content) || content.length > ONE_TURN_BYTES;
};

const isShared = (content: Content): content is LargeJson =>
  typeof content === 'object' && 'pieces' in content;

/** For an answer that cannot be sent. */
export function releaseOf(content: Content): void {
  if (isShared(content)) content.release();
}

export class LargeAnswers {
  readonly #room: ByteRoom;
  readonly #timers: Timers;

  constructor(room: ByteRoom, timers: Timers) {
    this.#room = room;
    this.#timers = timers;
  }

  /**
   * Throws SERVER_BUSY if there is no room for the content, unless it must be sent: what a server says about itself is
   * needed most when it has no memory left.
   */
  send(answer: Answer, content: NonNullable<Content>, exchange: HttpExchange, must: boolean): void {
    const bytes = contentBytes(content);
    const { pieces, release } = isShared(content) ? content : this.#counted(content, must ? 0 : bytes);
    const { response } = exchange;
    writeHead(answer, bytes, exchange);
    void writeInPieces(response, pieces, this.#timers).then(() => {
      release();
      response.end();
    });
  }

  #counted(content: string | Buffer, bytes: number): LargeJson {
    const share = this.#room.enter();
    share.grow(bytes);
    return { pieces: [content], release: () => share.release() };
  }
}
