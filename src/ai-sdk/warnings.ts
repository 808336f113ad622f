/** Collects what of a call could not be passed on: the AI SDK shows it to the developer. */
import type { SharedV4Warning } from '@ai-sdk/provider';

/** The namespace of orchd in the options and the metadata of the AI SDK. */
export const NAMESPACE = 'orchd';

type Options = Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined;

export class Warnings {
  /** By feature: what is in a hundred messages is told once. */
  readonly #found = new Map<string, SharedV4Warning>();

  get list(): SharedV4Warning[] {
    return [...this.#found.values()];
  }

  unsupported(feature: string, details: string): void {
    if (!this.#found.has(feature)) this.#found.set(feature, { type: 'unsupported', feature, details });
  }

  /** The options in our namespace; those of other providers are named in a warning. */
  ownOptions(options: Options): Readonly<Record<string, unknown>> {
    for (const name of Object.keys(options ?? {})) {
      if (name === NAMESPACE) continue;
      this.unsupported(`providerOptions.${name}`, `only providerOptions.${NAMESPACE} reaches the queue`);
    }
    return options?.[NAMESPACE] ?? {};
  }
}
