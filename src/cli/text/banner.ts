/** The text that `orchd up` prints when the server is up. */
import { resolve } from 'node:path';

export interface BannerParts {
  readonly version: string;
  readonly url: string;
  readonly data: string;
  readonly needsToken: boolean;
  readonly hasBackends: boolean;
  /** The pool managers that the configuration names. */
  readonly pools: number;
  /** Job types whose configured program does not exist, with their backends. */
  readonly missing: readonly { readonly backend: string; readonly type: string }[];
  /** The models named with --model, and those of the upstreams and seats. */
  readonly models: readonly string[];
  /** There are upstreams or a gateway, which may have no models yet. */
  readonly hasOtherServers?: boolean;
  /** A model that a configured backend answers without any set-up. */
  readonly exampleModel: string | undefined;
  /** A job type of a configured command. */
  readonly exampleType: string | undefined;
  /** How to call the command here: `orchd`, or in a checkout `npm run orchd --`. */
  readonly command: string;
  /** The server has the address that clients use by default. */
  readonly isDefaultUrl: boolean;
}

/** A longer curl command is not shown. */
const MAX_CURL_CHARS = 160;
/** More models are counted, not named. */
const MAX_MODELS = 10;

export function bannerText(parts: BannerParts): string {
  const { version, data, needsToken, models } = parts;
  const url = callableUrl(parts.url);
  const isEverywhere = url !== parts.url;
  return [
    `orchd ${version} listens on ${url}${isEverywhere ? ' and all other addresses of this machine' : ''}`,
    `data: ${resolve(data)}`,
    ...(models.length > 0 ? [`models: ${listed(models)}`] : []),
    ...backendLines(parts),
    ...(needsToken ? ['callers need a token: set ORCHD_TOKEN'] : []),
    ...exampleLines({ ...parts, url }),
    `see:  ${parts.command} status --watch${whereOf(parts.isDefaultUrl, url)}`,
    'press Ctrl-C to stop',
  ].join('\n');
}

/** An upstream may have hundreds of models. */
const listed = (models: readonly string[]): string =>
  models.slice(0, MAX_MODELS).join(', ') +
  (models.length > MAX_MODELS ? ` and ${models.length - MAX_MODELS} more (GET /v1/models)` : '');

/** A server that listens on all addresses cannot be called by the address that means all of them. */
export const callableUrl = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');

const whereOf = (isDefaultUrl: boolean, url: string): string => (isDefaultUrl ? '' : ` --url ${url}`);

/** Only what would be answered here. */
function exampleLines(parts: BannerParts): string[] {
  const { url, needsToken, models, exampleModel, exampleType, command, isDefaultUrl } = parts;
  const [model] = models;
  const chatModel = model ?? exampleModel;
  const where = whereOf(isDefaultUrl, url);
  if (chatModel === undefined)
    return exampleType === undefined
      ? []
      : [`try:  ${command} submit --follow --type ${exampleType} --payload '{}'${where}`];
  const which = model === undefined ? '' : ` --model ${model}`;
  const bearer = needsToken ? ` -H "authorization: Bearer $ORCHD_TOKEN"` : '';
  const task = JSON.stringify({ ...(model !== undefined && { model }), prompt: 'Hello' });
  const curl = `curl ${url}/v2/tasks${bearer} -H 'content-type: application/json' -d '${spaced(task)}'`;
  const chat = chatCurl(`${url}/v1/chat/completions${bearer}`, chatModel);
  return [
    `try:  ${command} submit --follow${which}${where} "Hello"`,
    `or:   ${curl}`,
    ...(chat.length <= MAX_CURL_CHARS ? [`or:   ${chat}`] : []),
  ];
}

function backendLines(parts: BannerParts): string[] {
  const { hasBackends, pools, models, missing, command, hasOtherServers } = parts;
  const poolLine = `jobs run in ${pools === 1 ? 'the pool' : `the ${pools} pools`} of the configuration: \`${command} models\` lists what they can run`;
  if (hasOtherServers && models.length === 0)
    return [
      'no upstream or gateway has answered with models yet (the log says why); they are offered as soon as one does',
    ];
  if (!hasBackends && models.length === 0)
    return pools > 0
      ? [poolLine]
      : [
          'nothing here runs jobs: they are refused until there is a backend',
          `add one: ${command} up --model FILE.gguf, or "backends" in the configuration, or a pool (docs/pools.md)`,
        ];
  // The message names the setting, not its value: apart from names nothing of the configuration is repeated.
  return missing.map(
    ({ backend, type }) =>
      `the backend ${backend} has no program for "${type}": argv names a file that does not exist`,
  );
}

/** The same request for the OpenAI API. */
function chatCurl(target: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
  return `curl ${target} -d '${spaced(body)}'`;
}

/** Adds spaces after colons and commas. */
const spaced = (json: string): string => json.replaceAll('":', '": ').replaceAll(',"', ', "');

/** In a checkout `orchd` is not on the PATH. */
export const ownCommand = (main: string | undefined): string =>
  main?.endsWith('.ts') ? 'npm run orchd --' : 'orchd';
