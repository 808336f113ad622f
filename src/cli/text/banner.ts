/** The text that `orchd up` prints when the server is up. */
import { resolve } from 'node:path';

export interface BannerParts {
  readonly version: string;
  readonly url: string;
  readonly data: string;
  readonly needsToken: boolean;
  readonly hasBackends: boolean;
  /** Job types whose configured program does not exist, with their backends. */
  readonly missing: readonly { readonly backend: string; readonly type: string }[];
  /** The models named with --model. */
  readonly models: readonly string[];
  /** A model that a configured backend answers without any set-up. */
  readonly exampleModel: string | undefined;
  /** How to call the command here: `orchd`, or in a checkout `npm run orchd --`. */
  readonly command: string;
  /** The server has the address that clients use by default. */
  readonly isDefaultUrl: boolean;
}

/** A longer curl command is not shown. */
const MAX_CURL_CHARS = 160;

export function bannerText(parts: BannerParts): string {
  const { version, url, data, needsToken, models, exampleModel, command, isDefaultUrl } = parts;
  const [model] = models;
  const where = isDefaultUrl ? '' : ` --url ${url}`;
  const which = model === undefined ? '' : ` --model ${model}`;
  const bearer = needsToken ? ` -H "authorization: Bearer $ORCHD_TOKEN"` : '';
  const task = JSON.stringify({ ...(model !== undefined && { model }), prompt: 'Hello' });
  const curl = `curl ${url}/v2/tasks${bearer} -H 'content-type: application/json' -d '${spaced(task)}'`;
  const chatModel = model ?? exampleModel;
  const chat = chatModel === undefined ? '' : chatCurl(`${url}/v1/chat/completions${bearer}`, chatModel);
  return [
    `orchd ${version} listens on ${url}`,
    `data: ${resolve(data)}`,
    ...(models.length > 0 ? [`models: ${models.join(', ')}`] : []),
    ...backendLines(parts),
    ...(needsToken ? ['callers need a token: set ORCHD_TOKEN'] : []),
    `try:  ${command} submit --follow${which}${where} "Hello"`,
    `or:   ${curl}`,
    ...(chat !== '' && chat.length <= MAX_CURL_CHARS ? [`or:   ${chat}`] : []),
    'press Ctrl-C to stop',
  ].join('\n');
}

function backendLines({ hasBackends, models, missing }: BannerParts): string[] {
  if (!hasBackends && models.length === 0)
    return ['no backend is configured: jobs will wait until there is one'];
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
