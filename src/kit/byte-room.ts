/**
 * Memory that many requests share: counts the bytes that each of them holds, and refuses those that do not fit. Small
 * ones always get in: they are bounded by the number of connections.
 */
import { OrchdError } from '../model/errors.ts';
import { ONE_TURN_BYTES } from './slices.ts';

const RETRY_AFTER_MS = 1000;

export const serverBusy = (): OrchdError =>
  new OrchdError('SERVER_BUSY', undefined, { retryAfterMs: RETRY_AFTER_MS });

/** The part of the room that one request holds; it must be released. */
export interface ByteShare {
  /** Takes room for as many bytes more; throws SERVER_BUSY if there is none. */
  grow(by: number): void;
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  readonly grant: () => void;
}

export class ByteRoom {
  readonly #maxBytes: number;
  #usedBytes = 0;
  readonly #waiting = new Set<Waiting>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  enter(): ByteShare {
    let bytes = 0;
    return {
      grow: (by) => {
        const isSmall = bytes + by <= ONE_TURN_BYTES;
        // A request that is alone gets in however large it is: the limit of a single body is a setting of its own.
        const isAlone = this.#usedBytes === bytes;
        const hasRoom = this.#usedBytes + by <= this.#maxBytes && this.#waiting.size === 0;
        if (!isSmall && !isAlone && !hasRoom) {
          throw serverBusy();
        }
        bytes += by;
        this.#usedBytes += by;
      },
      release: () => {
        this.#free(bytes);
        bytes = 0;
      },
    };
  }

  /** For those who cannot be refused any more: resolves when there is room, first come first served. */
  wait(bytes: number): Promise<Pick<ByteShare, 'release'>> {
    return new Promise((resolve) => {
      const grant = (): void => {
        this.#usedBytes += bytes;
        resolve({ release: once(() => this.#free(bytes)) });
      };
      this.#waiting.add({ bytes, grant });
      this.#grantWaiting();
    });
  }

  #free(bytes: number): void {
    this.#usedBytes -= bytes;
    this.#grantWaiting();
  }

  #grantWaiting(): void {
    for (const first of this.#waiting) {
      if (this.#usedBytes > 0 && this.#usedBytes + first.bytes > this.#maxBytes) return;
      this.#waiting.delete(first);
      first.grant();
    }
  }
}

/** The function with no effect after its first call. */
export function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) run();
    isDone = true;
  };
}
