/** What `orchd up` says to the person who started it. */
import { resolve } from 'node:path';

export interface BannerParts {
  readonly version: string;
  readonly url: string;
  readonly data: string;
  readonly needsToken: boolean;
  readonly hasBackends: boolean;
  /** Types of jobs whose program is configured and not there, and the backends that they are of. */
  readonly missing: readonly { readonly backend: string; readonly type: string }[];
  /** Those that were asked for on the command line. */
  readonly models: readonly string[];
  /** A model that a configured backend answers without any set-up. */
  readonly exampleModel: string | undefined;
  /** How the command is called here: `orchd`, or through npm in a checkout. */
  readonly command: string;
  /** Whether a client finds it without being told where. */
  readonly isDefaultUrl: boolean;
}

/** A line to be copied that is longer than this is worse than none. */
const MAX_CURL_CHARS = 160;

export function bannerText(parts: BannerParts): string {
  const { version, url, data, needsToken, models, exampleModel, command, isDefaultUrl } = parts;
  const [model] = models;
  const where = isDefaultUrl ? '' : ` --url ${url}`;
  const which = model === undefined ? '' : ` --model ${model}`;
  const bearer = needsToken ? ` -H "authorization: Bearer $ORCHD_TOKEN"` : '';
  const task = JSON.stringify({ ...(model !== undefined && { model }), prompt: 'Hello' });
  const curl = `curl ${url}/v2/tasks${bearer} -H 'content-type: application/json' -d '${spaced(task)}'`;
  const asked = model ?? exampleModel;
  const chat = asked === undefined ? '' : chatCurl(`${url}/v1/chat/completions${bearer}`, asked);
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
  // Where it stands and not what it says: of the configuration nothing is repeated but names.
  return missing.map(
    ({ backend, type }) =>
      `the backend ${backend} has no program for "${type}": argv names a file that is not there`,
  );
}

/** As clients of OpenAI ask. */
function chatCurl(target: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
  return `curl ${target} -d '${spaced(body)}'`;
}

/** As people write JSON. */
const spaced = (json: string): string => json.replaceAll('":', '": ').replaceAll(',"', ', "');

/** In a checkout there is no `orchd` on the path. */
export const ownCommand = (main: string | undefined): string =>
  main?.endsWith('.ts') ? 'npm run orchd --' : 'orchd';
