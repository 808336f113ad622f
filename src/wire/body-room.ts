/**
 * The room that a server has for the bodies of requests: the bytes of all bodies that are being received or parsed.
 * Small bodies always get in: they are bounded by the number of connections.
 */
import { Budget } from '../kit/budget.ts';
import { ONE_TURN_BYTES } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';

const RETRY_AFTER_MS = 1000;

export class BodyRoom {
  readonly #maxBytes: number;
  #usedBytes = 0;
  readonly #parsing = new Budget(1);

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Parses large bodies one after another: a turn of the event loop holds a slice of one of them only. */
  parseAlone<T>(parse: () => Promise<T>): Promise<T> {
    return this.#parsing.spend(1, parse);
  }

  /** The part of the room that one body takes; it must be released when the body is parsed or refused. */
  enter(): BodyShare {
    let bytes = 0;
    return {
      grow: (by) => {
        const isSmall = bytes + by <= ONE_TURN_BYTES;
        // A body that is alone gets in however large it is: the limit of a body is a setting of its own.
        const isAlone = this.#usedBytes === bytes;
        if (!isSmall && !isAlone && this.#usedBytes + by > this.#maxBytes) {
          throw new OrchdError('SERVER_BUSY', undefined, { retryAfterMs: RETRY_AFTER_MS });
        }
        bytes += by;
        this.#usedBytes += by;
      },
      release: () => {
        this.#usedBytes -= bytes;
        bytes = 0;
      },
    };
  }
}

export interface BodyShare {
  /** Takes room for as many bytes more; throws SERVER_BUSY if there is none. */
  grow(by: number): void;
  release(): void;
}
