/** The names under which orchd offers the models of an upstream: which of them, and renamed where the order says so. */
import type { UpstreamOrder } from '../../model/upstream-wire.ts';
import type { ListedModel } from './model-list.ts';

export interface OfferedModel {
  /** The name that jobs give. */
  readonly name: string;
  /** The upstream's own name. */
  readonly id: string;
}

export class OfferedNames {
  readonly #isOffered: (id: string) => boolean;
  /** From the name that orchd offers to the upstream's name. */
  readonly #theirs: ReadonlyMap<string, string>;
  /** The upstream's names that are offered under others only. */
  readonly #renamed: ReadonlySet<string>;

  constructor({ models, rename = {} }: Pick<UpstreamOrder, 'models' | 'rename'>) {
    const patterns = models?.map(patternOf);
    this.#isOffered = (id) => patterns?.some((pattern) => pattern.test(id)) ?? true;
    this.#theirs = new Map(Object.entries(rename));
    this.#renamed = new Set(this.#theirs.values());
  }

  offered(listed: readonly ListedModel[]): OfferedModel[] {
    const ids = new Set(listed.map(({ id }) => id).filter(this.#isOffered));
    const renamed = [...this.#theirs].filter(([, id]) => ids.has(id)).map(([name, id]) => ({ name, id }));
    const taken = new Set(renamed.map(({ name }) => name));
    const plain = [...ids].filter((id) => !this.#renamed.has(id) && !taken.has(id));
    return [...plain.map((id) => ({ name: id, id })), ...renamed];
  }

  theirs(name: string): string {
    return this.#theirs.get(name) ?? name;
  }
}

/** `*` stands for any text, everything else for itself. */
const patternOf = (text: string): RegExp =>
  new RegExp(
    `^${text
      .split('*')
      .map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'))
      .join('.*')}$`,
    's',
  );
