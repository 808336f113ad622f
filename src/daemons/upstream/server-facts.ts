/**
 * What servers tell about themselves beside the list of models: context lengths, and how many requests they run at a
 * time. Each kind of server has a way of its own. What none of them tells stays unknown: nothing is guessed.
 *
 *   vLLM            max_model_len in the list of models
 *   OpenRouter      context_length in the list; Groq: context_window
 *   llama-server    GET /props: default_generation_settings.n_ctx (of one slot) and total_slots; meta.n_ctx in the list
 *   LM Studio       GET /api/v0/models: loaded_context_length, else max_context_length
 *   Ollama          POST /api/show: num_ctx of the parameters, which is what it uses; else GET /api/ps: context_length of
 *                   a loaded model; else model_info.*.context_length, the most that the model can have
 */
import type { Target } from '../../wire/outbound.ts';
import type { ListedModel } from './model-list.ts';

export interface ServerFacts {
  /** Context lengths in tokens by model, where they are known. */
  readonly contexts: ReadonlyMap<string, number>;
  /** Requests that the server runs at a time, if it tells. */
  readonly slots: number | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** Fields of a listed model that contain its context length, the one that is in effect first. */
const LIST_FIELDS = ['max_model_len', 'loaded_context_length', 'context_length', 'context_window'] as const;
const PROBE_TIMEOUT_MS = 3000;
const MAX_PROBE_BYTES = 4 * 2 ** 20;
/** Models of Ollama that are asked for at a time, and at most in one look; the rest follows in the next. */
const SHOWN_AT_A_TIME = 4;
const SHOWN_PER_LOOK = 200;

/** The context lengths that Ollama has told about one model. */
interface OllamaLengths {
  /** `num_ctx` of its parameters. */
  readonly set: number | undefined;
  /** The most that it can have. */
  readonly longest: number | undefined;
  /** The one that it was last loaded with; kept when it is unloaded, because it will be loaded with the same again. */
  loaded?: number | undefined;
}

/** The servers that are recognised by an answer of their own, and what is read from it. */
type Kind = 'llama-server' | 'lm-studio' | 'ollama' | 'other';

export class FactReader {
  readonly #target: Target;
  readonly #headers: Readonly<Record<string, string>>;
  /** Undefined until the server was recognised, or was no server that is known here. */
  #kind: Kind | undefined;
  /** What Ollama has told about a model, by its name and the time of its last change. */
  readonly #shown = new Map<string, OllamaLengths>();

  constructor(target: Target, headers: Readonly<Record<string, string>>) {
    this.#target = target;
    this.#headers = headers;
  }

  /** Never throws: facts that cannot be read are unknown. */
  async read(models: readonly ListedModel[], signal: AbortSignal): Promise<ServerFacts> {
    const contexts = new Map<string, number>();
    for (const { id, fields } of models) {
      const length = lengthIn(fields);
      if (length !== undefined) contexts.set(id, length);
    }
    this.#kind ??= kindByOwner(models);
    if (this.#kind === 'other') return { contexts, slots: undefined };
    return this.#readOwn(models, contexts, signal);
  }

  /** Asks in the way of the server's kind; as long as the kind is not known, in one way after the other. */
  async #readOwn(
    models: readonly ListedModel[],
    contexts: Map<string, number>,
    signal: AbortSignal,
  ): Promise<ServerFacts> {
    let slots: number | undefined;
    const readers: Readonly<Record<Exclude<Kind, 'other'>, () => Promise<boolean>>> = {
      'llama-server': async () => {
        const props = await this.#get('/props', signal);
        const settings = props?.['default_generation_settings'] as Json | undefined;
        const length = positive(settings?.['n_ctx']);
        slots = positive(props?.['total_slots']);
        // The length is that of the model that is loaded: with several models it may be that of another one.
        if (length !== undefined && models.length === 1) contexts.set(models[0]?.id as string, length);
        return length !== undefined || slots !== undefined;
      },
      'lm-studio': async () => {
        const list = (await this.#get('/api/v0/models', signal))?.['data'];
        if (!Array.isArray(list)) return false;
        for (const entry of list as (Json | null)[]) {
          const length =
            positive(entry?.['loaded_context_length']) ?? positive(entry?.['max_context_length']);
          if (length !== undefined) contexts.set(String(entry?.['id']), length);
        }
        return true;
      },
      ollama: () => this.#readOllama(models, contexts, signal),
    };
    const kinds = Object.keys(readers) as (keyof typeof readers)[];
    for (const kind of this.#kind === undefined ? kinds : [this.#kind as keyof typeof readers]) {
      if (!(await readers[kind]()) || signal.aborted) continue;
      this.#kind = kind;
      return { contexts, slots };
    }
    if (!signal.aborted) this.#kind ??= 'other';
    return { contexts, slots };
  }

  async #readOllama(
    models: readonly ListedModel[],
    contexts: Map<string, number>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const loaded = (await this.#get('/api/ps', signal))?.['models'];
    if (!Array.isArray(loaded)) return false;
    const keyOf = ({ id, fields }: ListedModel): string => `${id}\n${fields['created']}`;
    const unknown = models.filter((model) => !this.#shown.has(keyOf(model))).slice(0, SHOWN_PER_LOOK);
    while (unknown.length > 0 && !signal.aborted) {
      const some = unknown.splice(0, SHOWN_AT_A_TIME);
      await Promise.all(
        some.map(async (model) => {
          const shown = await this.#post('/api/show', { model: model.id }, signal);
          if (shown) this.#shown.set(keyOf(model), lengthsIn(shown));
        }),
      );
    }
    const now = new Map(
      (loaded as (Json | null)[]).map((entry) => [entry?.['model'], entry?.['context_length']]),
    );
    for (const model of models) {
      const lengths = this.#shown.get(keyOf(model));
      if (!lengths) continue;
      lengths.loaded = positive(now.get(model.id)) ?? lengths.loaded;
      const length = lengths.set ?? lengths.loaded ?? lengths.longest;
      if (length !== undefined) contexts.set(model.id, length);
    }
    this.#forgetOthers(new Set(models.map(keyOf)));
    return true;
  }

  #forgetOthers(listed: ReadonlySet<string>): void {
    for (const key of this.#shown.keys()) if (!listed.has(key)) this.#shown.delete(key);
  }

  #get(path: string, signal: AbortSignal): Promise<Json | undefined> {
    return this.#ask('GET', path, undefined, signal);
  }

  #post(path: string, body: object, signal: AbortSignal): Promise<Json | undefined> {
    return this.#ask('POST', path, JSON.stringify(body), signal);
  }

  /** The object that is answered; undefined where the server has no such path, or answers anything else. */
  async #ask(
    method: 'GET' | 'POST',
    path: string,
    body: string | undefined,
    signal: AbortSignal,
  ): Promise<Json | undefined> {
    try {
      const reply = await this.#target.request({
        method,
        path,
        headers: this.#headers,
        ...(body !== undefined && { body }),
        timeoutMs: PROBE_TIMEOUT_MS,
        maxBytes: MAX_PROBE_BYTES,
        signal,
      });
      const value: unknown = reply.status === 200 ? JSON.parse(reply.body.toString()) : undefined;
      return typeof value === 'object' && value !== null ? (value as Json) : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Servers that say in the list of models what they are. */
function kindByOwner(models: readonly ListedModel[]): Kind | undefined {
  const owner = models[0]?.fields['owned_by'];
  if (owner === 'llamacpp') return 'llama-server';
  return owner === 'vllm' || owner === 'orchd' ? 'other' : undefined;
}

function lengthIn(fields: Json): number | undefined {
  for (const name of LIST_FIELDS) {
    const length = positive(fields[name]);
    if (length !== undefined) return length;
  }
  return positive((fields['meta'] as Json | null | undefined)?.['n_ctx']);
}

function lengthsIn({ parameters, model_info: info }: Json): OllamaLengths {
  const set = typeof parameters === 'string' ? /^num_ctx\s+(\d+)\s*$/m.exec(parameters)?.[1] : undefined;
  const longest = Object.entries((info ?? {}) as Json).find(([name]) =>
    name.endsWith('.context_length'),
  )?.[1];
  return { set: positive(Number(set)), longest: positive(longest) };
}

const positive = (value: unknown): number | undefined =>
  Number.isSafeInteger(value) && (value as number) > 0 && (value as number) <= 1_000_000_000
    ? (value as number)
    : undefined;
